import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * A message that is read again after a seek, or after its topic was taken out of a group and put back, can be rejected again.
 * The fence of the cursor tells that from the retry of a commit. Replicas of the previous version record a place once, with 0.
 */
export class RejectionsByFence1763251200190 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      ALTER TABLE rejection
        ADD COLUMN fence bigint NOT NULL DEFAULT 0,
        DROP CONSTRAINT rejection_pkey,
        ADD PRIMARY KEY (group_number, topic, partition, "offset", fence)`);
  }

  /** Of a message that was rejected several times, the last rejection remains. */
  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`
      DELETE FROM rejection USING rejection AS later
      WHERE later.group_number = rejection.group_number AND later.topic = rejection.topic AND later.partition = rejection.partition
        AND later."offset" = rejection."offset" AND later.position > rejection.position`);
    await runner.query(`
      ALTER TABLE rejection
        DROP CONSTRAINT rejection_pkey,
        ADD PRIMARY KEY (group_number, topic, partition, "offset"),
        DROP COLUMN fence`);
  }
}
