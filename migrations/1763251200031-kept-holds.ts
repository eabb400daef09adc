import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * What keeps a hold from ending (`kept_by`: a ruling or a replay that is half way through the rows of its key), and when it
 * ends once nothing keeps it any more, nor a dead letter; null: it has no end of its own.
 */
export class KeptHolds1763251200031 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE hold ADD COLUMN kept_by text, ADD COLUMN then_until timestamptz');
  }

  /** Nobody is left to end them. */
  async down(runner: QueryRunner): Promise<void> {
    await runner.query('UPDATE hold SET until = now() WHERE kept_by IS NOT NULL');
    await runner.query('ALTER TABLE hold DROP COLUMN kept_by, DROP COLUMN then_until');
  }
}
