import type { MigrationInterface, QueryRunner } from 'typeorm';

export class Listeners1763251200004 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    /*
     * Who wants which types, and how. A row is never removed: what is owed to a deleted listener goes by its number,
     * and waits for a listener of the same name to come back.
     *
     * `definition` is as it was given (defaults are applied when it is read), without its headers: their values can be
     * credentials, so they are in `sealed`, encrypted, together with the secrets. `lanes` is fixed for ever: a key's
     * lane follows from it, so another number would let a key overtake itself. `revision` grows with every change of
     * any listener; writers take turns (an advisory lock), so that it also grows in the order of the commits.
     */
    await runner.query(`
      CREATE TABLE listener (
        name         text COLLATE "C" PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'),
        number       integer     GENERATED ALWAYS AS IDENTITY UNIQUE CHECK (number BETWEEN 1 AND 8388607),
        revision     bigint      NOT NULL,
        definition   jsonb       NOT NULL CHECK (jsonb_typeof(definition) = 'object' AND NOT definition ? 'headers'),
        types        text[]      NOT NULL CHECK (cardinality(types) > 0),
        lanes        smallint    NOT NULL CHECK (lanes BETWEEN 1 AND 256),
        sealed       text        NOT NULL CHECK (sealed LIKE 'v1:%'),
        secret_from  text        NOT NULL CHECK (secret_from IN ('service', 'file')),
        origin       text        NOT NULL CHECK (origin IN ('api', 'file')),
        state        text        NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'disabled')),
        state_reason text,
        state_since  timestamptz NOT NULL DEFAULT now(),
        state_by     text        NOT NULL,
        created_at   timestamptz NOT NULL DEFAULT now(),
        created_by   text        NOT NULL,
        updated_at   timestamptz NOT NULL DEFAULT now(),
        updated_by   text        NOT NULL,
        deleted_at   timestamptz,
        CONSTRAINT listener_secret_from CHECK (secret_from = 'service' OR origin = 'file')
      )`);
  }

  /** The lanes of listeners go with them. */
  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DELETE FROM lane WHERE queue = 'outbox'`);
    await runner.query('DROP TABLE listener');
  }
}
