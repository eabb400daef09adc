import type { MigrationInterface, QueryRunner } from 'typeorm';

export class Lanes1763251200003 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    // Who owns which lane until when. Changed often, never indexed beyond its key: room for HOT updates.
    await runner.query(`
      CREATE TABLE lane (
        queue        text        NOT NULL,
        lane         integer     NOT NULL,
        epoch        bigint      NOT NULL DEFAULT 0,
        leased_until timestamptz NOT NULL DEFAULT '-infinity',
        token        uuid,
        replica      text,
        crashes      smallint    NOT NULL DEFAULT 0,
        PRIMARY KEY (queue, lane)
      ) WITH (fillfactor = 25, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)`);
    await runner.query(`INSERT INTO lane (queue, lane) SELECT 'inbox', generate_series(0, 255)`);
    // A key that waits, until when and why.
    await runner.query(`
      CREATE TABLE hold (
        queue  text        NOT NULL,
        key    text        NOT NULL,
        lane   integer     NOT NULL,
        until  timestamptz NOT NULL,
        reason text        NOT NULL CHECK (reason IN ('retry', 'deferred', 'rate', 'dead-letter', 'operator')),
        note   text,
        set_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (queue, lane, key)
      )`);
    await runner.query('CREATE INDEX hold_due ON hold (queue, lane, until)');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE hold');
    await runner.query('DROP TABLE lane');
  }
}
