import type { MigrationInterface, QueryRunner } from 'typeorm';

/** How often in a row a listener asked for a pause: whoever asks again and again waits longer. */
export class GatesPauses1763251200036 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE gate ADD COLUMN pauses smallint NOT NULL DEFAULT 0');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE gate DROP COLUMN pauses');
  }
}
