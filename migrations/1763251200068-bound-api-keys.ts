import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Prefixes of the sources and keys that an api key may post for; NULL: any. A version that knows nothing of them must not
 * take such a key for one that may do everything: its `secret_hash` covers the prefixes as well, so it is refused there.
 */
export class BoundApiKeys1763251200068 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      ALTER TABLE api_key
        ADD COLUMN sources text[] CHECK (cardinality(sources) BETWEEN 1 AND 20),
        ADD COLUMN keys    text[] CHECK (cardinality(keys) BETWEEN 1 AND 20)`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE api_key DROP COLUMN sources, DROP COLUMN keys');
  }
}
