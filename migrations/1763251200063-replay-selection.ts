import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Which positions of a replay are still to be looked through for what its filter means: from `select_from` up to
 * `select_to`; without them all of it is selected. Meanwhile `done_at` is infinite, so that the version before, which takes a
 * replay for selected when it is there, leaves it alone.
 */
export class ReplaySelection1763251200063 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      ALTER TABLE replay ADD COLUMN select_from bigint, ADD COLUMN select_to bigint,
        ADD CONSTRAINT replay_selecting CHECK (
          (select_from IS NULL) = (select_to IS NULL) AND (select_from IS NULL OR done_at = 'infinity'))`);
  }

  /** Nothing was sent of those that are not selected; whoever wanted them asks again. */
  async down(runner: QueryRunner): Promise<void> {
    await runner.query(
      'UPDATE replay SET done_at = now(), select_from = NULL, select_to = NULL WHERE select_from IS NOT NULL',
    );
    await runner.query(
      'ALTER TABLE replay DROP CONSTRAINT replay_selecting, DROP COLUMN select_from, DROP COLUMN select_to',
    );
  }
}
