import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * `read_model_version`: which versions of each read model replicas with the role `inbox` run, with a sign of life every few
 * seconds. `version` identifies the code of its denormalizers.
 * `rebuild.version`: of the replica that started it. `rebuild.known_migrations`: those the living schema had then; the code of
 * some may be gone, so the next schema does not have them. Both are null in rebuilds of the version before.
 */
export class ReadModelVersions1763251200240 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE read_model_version (
        model      text        NOT NULL,
        version    text        NOT NULL,
        migrations text[]      NOT NULL,
        seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
        PRIMARY KEY (model, version, migrations)
      ) WITH (fillfactor = 25, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)`);
    await runner.query(
      'ALTER TABLE rebuild ADD COLUMN IF NOT EXISTS version text, ADD COLUMN IF NOT EXISTS known_migrations text[]',
    );
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE rebuild DROP COLUMN version, DROP COLUMN known_migrations');
    await runner.query('DROP TABLE read_model_version');
  }
}
