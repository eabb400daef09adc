import type { MigrationInterface, QueryRunner } from 'typeorm';

const INDEXES = [
  ['ruling_item', 'ruling, stage, lane, key', 'outcome'],
  ['replay_delivery', 'replay, lane, key', 'reopened_at'],
] as const;

/** What is left of a long key is found where it begins, not behind all that was done of it. */
export class ItemsInOrder1763251200032 implements MigrationInterface {
  transaction = false;

  async up(runner: QueryRunner): Promise<void> {
    for (const [table, columns, done] of INDEXES) {
      await runner.query(`DROP INDEX CONCURRENTLY IF EXISTS ${table}_left`);
      await runner.query(
        `CREATE INDEX CONCURRENTLY ${table}_left ON ${table} (${columns}, position) WHERE ${done} IS NULL`,
      );
      await runner.query(`DROP INDEX CONCURRENTLY IF EXISTS ${table}_waiting`);
    }
  }

  /** In a transaction: that is how a migration is undone. */
  async down(runner: QueryRunner): Promise<void> {
    for (const [table, columns, done] of INDEXES) {
      await runner.query(`CREATE INDEX ${table}_waiting ON ${table} (${columns}) WHERE ${done} IS NULL`);
      await runner.query(`DROP INDEX ${table}_left`);
    }
  }
}
