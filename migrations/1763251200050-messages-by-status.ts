import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Messages of a status, newest first, without a look at the millions that are finished. No claim can be lured by these: each
 * asks for what is ready or held. Nor do they cost a message that takes the usual way anything.
 */
const INDEXES = [
  ['inbox_scheduled_position', `settled_at IS NULL AND waits = 'due'`],
  ['inbox_lapsed_position', 'lapsed_at IS NOT NULL'],
  ['inbox_dead_position', 'fingerprint IS NOT NULL'],
] as const;

export class MessagesByStatus1763251200050 implements MigrationInterface {
  transaction = false;

  async up(runner: QueryRunner): Promise<void> {
    for (const [name, which] of INDEXES) {
      await runner.query(`DROP INDEX CONCURRENTLY IF EXISTS ${name}`);
      await runner.query(`CREATE INDEX CONCURRENTLY ${name} ON inbox (position) WHERE ${which}`);
    }
  }

  async down(runner: QueryRunner): Promise<void> {
    for (const [name] of INDEXES) await runner.query(`DROP INDEX ${name}`);
  }
}
