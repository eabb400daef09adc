import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Sources: streams and queues of brokers whose messages go into the inbox. */
export class Sources1763251200220 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE source (
        name text PRIMARY KEY,
        kind text NOT NULL,
        token uuid,
        leased_until timestamptz NOT NULL DEFAULT '-infinity',
        replica text,
        -- Where a stream is continued; a queue knows that itself.
        place jsonb,
        state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'running', 'failing', 'full')),
        error text,
        since timestamptz NOT NULL DEFAULT clock_timestamp(),
        accepted bigint NOT NULL DEFAULT 0,
        duplicates bigint NOT NULL DEFAULT 0,
        stored_at timestamptz
      ) WITH (fillfactor = 50)`);
    await runner.query(`
      CREATE TABLE source_refusal (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        source text NOT NULL REFERENCES source ON DELETE CASCADE,
        place text NOT NULL,
        reason text NOT NULL,
        headers jsonb NOT NULL,
        body bytea NOT NULL,
        at timestamptz NOT NULL DEFAULT clock_timestamp(),
        UNIQUE (source, place)
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE source_refusal');
    await runner.query('DROP TABLE source');
  }
}
