import type { MigrationInterface, QueryRunner } from 'typeorm';

const TABLES = ['inbox', 'outbox'] as const;

/**
 * Since when a row waits that had ended and was put back into the queue; null: since it came. One after the other without
 * a transaction: locks on both at once could wait in a circle with whoever writes both.
 */
export class WaitsSince1763251200035 implements MigrationInterface {
  transaction = false;

  async up(runner: QueryRunner): Promise<void> {
    for (const table of TABLES)
      await runner.query(`ALTER TABLE ${table} ADD COLUMN IF NOT EXISTS waits_since timestamptz`);
  }

  async down(runner: QueryRunner): Promise<void> {
    for (const table of TABLES) await runner.query(`ALTER TABLE ${table} DROP COLUMN waits_since`);
  }
}
