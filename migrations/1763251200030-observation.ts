import type { MigrationInterface, QueryRunner } from 'typeorm';

/** So that what is measured every few seconds is found without a look at the rest. */
export class Observation1763251200030 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(
      'CREATE INDEX inbox_expires ON inbox (expires_at) WHERE settled_at IS NULL AND expires_at IS NOT NULL',
    );
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP INDEX inbox_expires');
  }
}
