import type { MigrationInterface, QueryRunner } from 'typeorm';

const setStages = (runner: QueryRunner, stages: string) =>
  runner.query(`
    ALTER TABLE ruling_item
      DROP CONSTRAINT ruling_item_stage_check,
      ADD CONSTRAINT ruling_item_stage_check CHECK (stage IN (${stages})) NOT VALID`);

/**
 * Rejections as dead letters: with an id for the API, in the order in which they were made, with a fingerprint like the dead
 * letters of inbox and outbox, and with the place in the group's topic that a revived one went to.
 */
export class GroupDeadLetters1763251200083 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      ALTER TABLE rejection
        ADD COLUMN position bigint GENERATED ALWAYS AS IDENTITY,
        ADD COLUMN id uuid NOT NULL DEFAULT gen_random_uuid(),
        ADD COLUMN fingerprint text GENERATED ALWAYS AS (CASE WHEN status = 'dead' THEN fingerprint_of(reason) END) STORED,
        ADD COLUMN revived_topic integer,
        ADD COLUMN revived_offset bigint,
        ADD CONSTRAINT rejection_ruled CHECK ((status = 'dead') = (ruled_at IS NULL) AND (status = 'dead') = (ruled_by IS NULL)),
        ADD CONSTRAINT rejection_revived CHECK (
          (status = 'revived') = (revived_topic IS NOT NULL) AND (status = 'revived') = (revived_offset IS NOT NULL))`);
    await runner.query('CREATE UNIQUE INDEX rejection_position ON rejection (position)');
    await runner.query('CREATE UNIQUE INDEX rejection_id ON rejection (id)');
    await runner.query(
      'CREATE INDEX rejection_newest ON rejection (rejected_at, position) WHERE fingerprint IS NOT NULL',
    );
    await runner.query(
      'CREATE INDEX rejection_group ON rejection (group_number) WHERE fingerprint IS NOT NULL',
    );
    // A deleted topic keeps its row as long as dead letters came from it.
    await runner.query('CREATE INDEX rejection_origin ON rejection (topic)');
    await setStages(runner, `'inbox', 'outbox', 'group'`);
  }

  /** What was revived or discarded of a group stays so. */
  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DELETE FROM ruling_item WHERE stage = 'group'`);
    await setStages(runner, `'inbox', 'outbox'`);
    await runner.query(`
      ALTER TABLE rejection
        DROP CONSTRAINT rejection_revived, DROP CONSTRAINT rejection_ruled, DROP COLUMN revived_offset,
        DROP COLUMN revived_topic, DROP COLUMN fingerprint, DROP COLUMN id, DROP COLUMN position`);
    await runner.query('DROP INDEX rejection_origin');
  }
}
