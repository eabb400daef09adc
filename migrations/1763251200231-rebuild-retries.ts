import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * `rebuild_lane.attempts`: how often the next message of the lane has failed; it is tried again at `retry_at`. Both start over
 * when the lane advances.
 */
export class RebuildRetries1763251200231 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(
      'ALTER TABLE rebuild_lane ADD COLUMN attempts integer NOT NULL DEFAULT 0, ADD COLUMN retry_at timestamptz',
    );
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE rebuild_lane DROP COLUMN attempts, DROP COLUMN retry_at');
  }
}
