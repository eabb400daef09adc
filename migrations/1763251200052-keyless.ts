import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Whether a message came without a key. Its key is its id then, which says little about others with the same one, from another
 * source or as their key: they are not counted together, none supersedes the other, and its dead letter holds nobody. Messages from
 * before count as if they had come with theirs.
 */
export class Keyless1763251200052 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE inbox ADD COLUMN IF NOT EXISTS keyless boolean NOT NULL DEFAULT false');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE inbox DROP COLUMN keyless');
  }
}
