import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * `replica`: who runs, by a sign of life every few seconds; `process` is the name under which it holds lanes. Changed often,
 * in no index beyond its key: room for HOT.
 *
 * `activity`: what each replica counted from `at` to `until`, so that rates over all replicas are known. A stretch without
 * any work is one row, whose end moves on.
 */
export class ReplicasAndActivity1763251200090 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE replica (
        id         text        PRIMARY KEY,
        process    text        NOT NULL,
        host       text        NOT NULL,
        roles      text[]      NOT NULL CHECK (cardinality(roles) > 0),
        version    text        NOT NULL,
        started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        seen_at    timestamptz NOT NULL DEFAULT clock_timestamp()
      ) WITH (fillfactor = 25, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)`);
    await runner.query(`
      CREATE TABLE activity (
        id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        replica   text        NOT NULL,
        at        timestamptz NOT NULL,
        until     timestamptz NOT NULL CHECK (until > at),
        accepted  bigint      NOT NULL DEFAULT 0,
        applied   bigint      NOT NULL DEFAULT 0,
        failed    bigint      NOT NULL DEFAULT 0,
        dead      bigint      NOT NULL DEFAULT 0,
        listeners jsonb,
        groups    jsonb
      )`);
    await runner.query('CREATE INDEX activity_until ON activity (until)');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE activity');
    await runner.query('DROP TABLE replica');
  }
}
