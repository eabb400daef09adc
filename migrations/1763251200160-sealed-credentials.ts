import type { MigrationInterface, QueryRunner } from 'typeorm';

const CHECK = 'listener_sealed_check';

/**
 * Boxes of version 3 contain the credentials of a broker. The version before cannot open them, and leaves such a listener
 * alone: sealing it again would lose the credentials.
 */
export class SealedCredentials1763251200160 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`ALTER TABLE listener DROP CONSTRAINT IF EXISTS ${CHECK}`);
    await runner.query(`ALTER TABLE listener ADD CONSTRAINT ${CHECK} CHECK (sealed ~ '^v[123]:') NOT VALID`);
    await runner.query(`ALTER TABLE listener VALIDATE CONSTRAINT ${CHECK}`);
  }

  /** Nothing: a listener that publishes to a broker would violate the check of the version before. */
  async down(): Promise<void> {}
}
