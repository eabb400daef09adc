import type { MigrationInterface, QueryRunner } from 'typeorm';

const TABLES = ['inbox', 'outbox'] as const;
const ON_ITS_WAY = 'WHERE settled_at IS NULL AND ruling IS NOT NULL';

/** How much of what was revived is on its way in each queue: those of a listener are next to each other. */
export class RulingsByQueue1763251200041 implements MigrationInterface {
  transaction = false;

  async up(runner: QueryRunner): Promise<void> {
    for (const table of TABLES) {
      await runner.query(`DROP INDEX CONCURRENTLY IF EXISTS ${table}_ruling_lane`);
      await runner.query(
        `CREATE INDEX CONCURRENTLY ${table}_ruling_lane ON ${table} (ruling, lane) ${ON_ITS_WAY}`,
      );
      await runner.query(`DROP INDEX CONCURRENTLY IF EXISTS ${table}_ruling`);
    }
  }

  /** In a transaction: that is how a migration is undone. */
  async down(runner: QueryRunner): Promise<void> {
    for (const table of TABLES) {
      await runner.query(`CREATE INDEX ${table}_ruling ON ${table} (ruling) ${ON_ITS_WAY}`);
      await runner.query(`DROP INDEX ${table}_ruling_lane`);
    }
  }
}
