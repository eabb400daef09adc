import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Whether a message came without a key. Its key is its id then, and says nothing about any other message: not of one from another
 * source with the same id, nor of one that has that id as its key. Messages from before count as if they had come with theirs.
 */
export class Keyless1763251200052 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE inbox ADD COLUMN IF NOT EXISTS keyless boolean NOT NULL DEFAULT false');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE inbox DROP COLUMN keyless');
  }
}
