import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * What needs an operator is found every second while someone watches, so by index: holds that an operator set without end,
 * and producers with missing numbers. Neither index has a column that the usual way of a message changes.
 */
const INDEXES = [
  ['hold_endless', `hold (set_at) WHERE reason = 'operator' AND until = 'infinity'`],
  ['producer_gap', `producer (source, id) WHERE missing <> '{}'`],
] as const;

export class Attention1763251200091 implements MigrationInterface {
  transaction = false;

  async up(runner: QueryRunner): Promise<void> {
    for (const [name, on] of INDEXES) {
      await runner.query(`DROP INDEX CONCURRENTLY IF EXISTS ${name}`);
      await runner.query(`CREATE INDEX CONCURRENTLY ${name} ON ${on}`);
    }
  }

  async down(runner: QueryRunner): Promise<void> {
    for (const [name] of INDEXES) await runner.query(`DROP INDEX ${name}`);
  }
}
