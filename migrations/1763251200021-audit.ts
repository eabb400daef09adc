import type { MigrationInterface, QueryRunner } from 'typeorm';

export class Audit1763251200021 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    // What operators did, each written with the transaction that did it.
    await runner.query(`
      CREATE TABLE audit (
        id     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        at     timestamptz NOT NULL DEFAULT now(),
        by     text        NOT NULL,
        action text        NOT NULL,
        target text,
        filter jsonb,
        count  integer,
        reason text
      )`);
    await runner.query('CREATE INDEX audit_at ON audit (at)');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE audit');
  }
}
