import type { MigrationInterface, QueryRunner } from 'typeorm';

export class ApiKeys1763251200001 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE api_key (
        id          text        PRIMARY KEY CHECK (id ~ '^[A-Za-z0-9]{1,32}$'),
        name        text        NOT NULL CHECK (length(name) BETWEEN 1 AND 63),
        scopes      text[]      NOT NULL CHECK (cardinality(scopes) > 0 AND scopes <@ '{produce,consume,read,admin}'),
        secret_hash bytea       NOT NULL CHECK (length(secret_hash) = 32),
        created_at  timestamptz NOT NULL DEFAULT now(),
        created_by  text        NOT NULL,
        revoked_at  timestamptz
      )`);
    // A name says where messages come from: two live keys must not share one.
    await runner.query('CREATE UNIQUE INDEX api_key_live_name ON api_key (name) WHERE revoked_at IS NULL');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE api_key');
  }
}
