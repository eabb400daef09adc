import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Since when a gate says what it says: what a listener answered after a change of it is not forgotten with that change. */
export class GatesSetAt1763251200033 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE gate ADD COLUMN set_at timestamptz NOT NULL DEFAULT now()');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE gate DROP COLUMN set_at');
  }
}
