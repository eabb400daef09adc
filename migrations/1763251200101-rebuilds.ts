import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * `rebuild`: a read model is computed anew in the schema `target`, beside the living one. `direction` is `back` while a
 * switch is undone. Row locks on it order everything: a batch holds it FOR SHARE, whatever changes its status waits for the
 * batches in flight.
 * `rebuild_lane`: how far each lane is applied to the schema that is not the living one; committed with what was applied.
 * `rebuild_failure`: messages that the rebuild left out.
 */
export class Rebuilds1763251200101 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE rebuild (
        id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        model       text        NOT NULL,
        target      text        NOT NULL,
        status      text        NOT NULL DEFAULT 'building' CHECK (status IN ('building', 'replaying', 'comparing', 'ready',
                                  'switching', 'switched', 'rolled-back', 'failed', 'cancelled', 'dropped')),
        direction   text        NOT NULL DEFAULT 'forward' CHECK (direction IN ('forward', 'back')),
        paused      boolean     NOT NULL DEFAULT false,
        options     jsonb       NOT NULL,
        migrations  text[]      NOT NULL,
        total       bigint,
        waits_for   text,
        diff        jsonb,
        failure     jsonb,
        created_at  timestamptz NOT NULL DEFAULT now(),
        created_by  text        NOT NULL,
        replay_from timestamptz,
        switched_at timestamptz,
        pause_ms    integer,
        ended_at    timestamptz
      )`);
    await runner.query('CREATE UNIQUE INDEX rebuild_open ON rebuild (model) WHERE ended_at IS NULL');
    await runner.query(`
      CREATE TABLE rebuild_lane (
        rebuild  bigint  NOT NULL REFERENCES rebuild,
        lane     integer NOT NULL,
        applied  bigint  NOT NULL DEFAULT 0,
        position bigint  NOT NULL DEFAULT 0,
        done     bigint  NOT NULL DEFAULT 0,
        PRIMARY KEY (rebuild, lane)
      ) WITH (fillfactor = 25, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)`);
    await runner.query(`
      CREATE TABLE rebuild_failure (
        rebuild    bigint      NOT NULL REFERENCES rebuild,
        position   bigint      NOT NULL,
        source     text        NOT NULL,
        id         text        NOT NULL,
        error      text        NOT NULL,
        skipped_by text        NOT NULL,
        reason     text,
        at         timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (rebuild, position)
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE rebuild_failure, rebuild_lane, rebuild');
  }
}
