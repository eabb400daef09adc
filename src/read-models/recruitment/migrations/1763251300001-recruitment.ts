import type { MigrationInterface, QueryRunner } from 'typeorm';

export class Recruitment1763251300001 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    // Times of milliseconds: what a Date and so the cursor of a page can hold. No index has the status, and pages have
    // room to spare: a candidate that moves on is a HOT update.
    await runner.query(`
      CREATE TABLE candidate (
        id           text           PRIMARY KEY,
        name         text           NOT NULL DEFAULT '',
        vacancy_id   text,
        status       text           NOT NULL
          CHECK (status IN ('applied', 'invited', 'accepted', 'rejected', 'withdrawn')),
        interview_at timestamptz(3),
        applied_at   timestamptz(3) NOT NULL,
        changed_at   timestamptz(3) NOT NULL,
        version      integer        NOT NULL CHECK (version > 0)
      ) WITH (fillfactor = 80)`);
    await runner.query('CREATE INDEX candidate_vacancy ON candidate (vacancy_id)');
    await runner.query('CREATE INDEX candidate_applied ON candidate (applied_at, id)');
    await runner.query('CREATE INDEX candidate_name ON candidate (name, id)');
    await runner.query('CREATE INDEX candidate_name_prefix ON candidate (lower(name) text_pattern_ops)');
    await runner.query(`
      CREATE TABLE candidate_step (
        candidate_id text           NOT NULL,
        step         integer        NOT NULL,
        status       text           NOT NULL,
        by           text           NOT NULL,
        at           timestamptz(3) NOT NULL,
        note         text,
        message_id   text           NOT NULL,
        PRIMARY KEY (candidate_id, step)
      )`);
    await runner.query(`
      CREATE TABLE vacancy (
        id        text           PRIMARY KEY,
        title     text           NOT NULL DEFAULT '',
        status    text           NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'closed')),
        opened_at timestamptz(3),
        closed_at timestamptz(3)
      )`);
    await runner.query('CREATE INDEX vacancy_title ON vacancy (title, id)');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE vacancy');
    await runner.query('DROP TABLE candidate_step');
    await runner.query('DROP TABLE candidate');
  }
}
