import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Scheduled messages that expire before they are due. The API refuses them, so the index is empty, and costs nothing. */
export class ScheduledExpiring1763251200070 implements MigrationInterface {
  transaction = false;

  async up(runner: QueryRunner): Promise<void> {
    await runner.query('DROP INDEX CONCURRENTLY IF EXISTS inbox_scheduled_expiring');
    await runner.query(`
      CREATE INDEX CONCURRENTLY inbox_scheduled_expiring ON inbox (expires_at)
      WHERE settled_at IS NULL AND waits = 'due' AND expires_at <= due_at`);
  }

  /** In a transaction: that is how a migration is undone. */
  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP INDEX inbox_scheduled_expiring');
  }
}
