import type { MigrationInterface, QueryRunner } from 'typeorm';

/** `rebuild.drain_until`: up to then replicas take no messages of the inbox, because the rebuild has to call out for the last ones. */
export class RebuildDrains1763251200241 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(
      'ALTER TABLE rebuild ADD COLUMN IF NOT EXISTS drain_until timestamptz, ADD COLUMN IF NOT EXISTS drains integer NOT NULL DEFAULT 0',
    );
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE rebuild DROP COLUMN drain_until, DROP COLUMN drains');
  }
}
