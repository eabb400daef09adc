import type { MigrationInterface, QueryRunner } from 'typeorm';

/** `rebuild_progress`: how many messages a rebuild had applied at some times of the last minutes, for its rate. */
export class RebuildProgress1763251200242 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE rebuild_progress (
        rebuild bigint      NOT NULL REFERENCES rebuild,
        at      timestamptz NOT NULL DEFAULT clock_timestamp(),
        done    bigint      NOT NULL,
        PRIMARY KEY (rebuild, at)
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE rebuild_progress');
  }
}
