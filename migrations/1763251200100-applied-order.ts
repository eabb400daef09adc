import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * The order in which messages were applied. The position is not that order: a message that was retried, held or revived is
 * applied behind later positions. `applied` is set when a message is finished, from a sequence that is read once per
 * transaction, after its fence: within a lane it ascends in the order of the commits. Messages of one transaction share it;
 * they are in the order of their positions.
 *
 * Rows that were finished before this migration, or by a replica of the previous version, have none and count as 0.
 */
export class AppliedOrder1763251200100 implements MigrationInterface {
  transaction = false;

  async up(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE inbox ADD COLUMN IF NOT EXISTS applied bigint');
    await runner.query('CREATE SEQUENCE IF NOT EXISTS inbox_applied_seq OWNED BY inbox.applied');
    await runner.query('DROP INDEX CONCURRENTLY IF EXISTS inbox_applied');
    // Finished messages. The predicate must not mention `status`: a claim would have to update every index of the row.
    await runner.query(`
      CREATE INDEX CONCURRENTLY inbox_applied ON inbox (lane, COALESCE(applied, 0), position)
      WHERE settled_at IS NOT NULL AND lapsed_at IS NULL`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP INDEX inbox_applied');
    await runner.query('ALTER TABLE inbox DROP COLUMN applied');
  }
}
