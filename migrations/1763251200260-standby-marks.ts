import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * What replicas write to the primary and look for on the standbys of READ_DATABASE_URL: a standby that has it follows this
 * primary.
 */
export class StandbyMarks1763251200260 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(
      'CREATE TABLE standby_mark (token text PRIMARY KEY, written_at timestamptz NOT NULL DEFAULT clock_timestamp())',
    );
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE standby_mark');
  }
}
