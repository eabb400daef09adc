import type { MigrationInterface, QueryRunner } from 'typeorm';

/** When a revive, discard or replay last got ahead, and who stopped it before its end. */
export class CancelledJobs1763251200092 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    for (const table of ['ruling', 'replay'])
      await runner.query(`
        ALTER TABLE ${table}
          ADD COLUMN progressed_at timestamptz,
          ADD COLUMN cancelled_at timestamptz,
          ADD COLUMN cancelled_by text`);
  }

  async down(runner: QueryRunner): Promise<void> {
    for (const table of ['ruling', 'replay'])
      await runner.query(
        `ALTER TABLE ${table} DROP COLUMN progressed_at, DROP COLUMN cancelled_at, DROP COLUMN cancelled_by`,
      );
  }
}
