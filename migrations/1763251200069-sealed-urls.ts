import type { MigrationInterface, QueryRunner } from 'typeorm';

const CONSTRAINTS = {
  listener_sealed_check: `sealed ~ '^v[12]:'`,
  // Where the box holds the URL, it does not stand beside it in the open.
  listener_url_sealed: `sealed LIKE 'v1:%' OR NOT definition ? 'url'`,
};

/**
 * A listener's URL is sealed with its secrets, in boxes of version 2. Rows of the version before (1, the URL in
 * `definition`) are sealed again by upkeep, which has the key.
 */
export class SealedUrls1763251200069 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    for (const [name, check] of Object.entries(CONSTRAINTS)) {
      await runner.query(`ALTER TABLE listener DROP CONSTRAINT IF EXISTS ${name}`);
      await runner.query(`ALTER TABLE listener ADD CONSTRAINT ${name} CHECK (${check}) NOT VALID`);
      await runner.query(`ALTER TABLE listener VALIDATE CONSTRAINT ${name}`);
    }
  }

  /** What is sealed stays sealed: the version before must still be able to pause or delete such a listener. */
  async down(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE listener DROP CONSTRAINT listener_url_sealed');
  }
}
