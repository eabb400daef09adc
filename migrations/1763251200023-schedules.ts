import type { MigrationInterface, QueryRunner } from 'typeorm';

export class Schedules1763251200023 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    // What is to be posted when. `next_at` alone decides, by the clock of the database, under the lock of the row.
    await runner.query(`
      CREATE TABLE schedule (
        name       text COLLATE "C" PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'),
        cron       text        NOT NULL,
        timezone   text        NOT NULL,
        type       text        NOT NULL,
        payload    json        NOT NULL,
        key        text,
        on_missed  text        NOT NULL CHECK (on_missed IN ('one', 'skip', 'all')),
        paused     boolean     NOT NULL DEFAULT false,
        next_at    timestamptz NOT NULL,
        last_at    timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(),
        created_by text        NOT NULL,
        updated_at timestamptz NOT NULL DEFAULT now(),
        updated_by text        NOT NULL
      )`);
    await runner.query('CREATE INDEX schedule_next ON schedule (next_at) WHERE NOT paused');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE schedule');
  }
}
