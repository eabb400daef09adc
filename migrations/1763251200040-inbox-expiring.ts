import type { MigrationInterface, QueryRunner } from 'typeorm';

/** What waits behind a hold and has an end: it is found when that comes, however long the hold lasts. */
export class InboxExpiring1763251200040 implements MigrationInterface {
  transaction = false;

  async up(runner: QueryRunner): Promise<void> {
    await runner.query('DROP INDEX CONCURRENTLY IF EXISTS inbox_expiring');
    await runner.query(`
      CREATE INDEX CONCURRENTLY inbox_expiring ON inbox (expires_at)
      WHERE settled_at IS NULL AND waits = 'held' AND expires_at IS NOT NULL`);
  }

  /** In a transaction: that is how a migration is undone. */
  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP INDEX inbox_expiring');
  }
}
