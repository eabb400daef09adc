import type { MigrationInterface, QueryRunner } from 'typeorm';

/** The poll that has handed out the last messages of a cursor: only that one may take them back when its response is not read. */
export class CursorHandedBy1763251200280 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE group_cursor ADD COLUMN handed_by uuid');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE group_cursor DROP COLUMN handed_by');
  }
}
