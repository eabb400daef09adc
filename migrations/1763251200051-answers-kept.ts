import type { MigrationInterface, QueryRunner } from 'typeorm';

/** What the receiver said when it took a delivery; of attempts that failed it stands in `attempt`. Null: nothing. */
export class AnswersKept1763251200051 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE outbox ADD COLUMN IF NOT EXISTS excerpt text');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE outbox DROP COLUMN excerpt');
  }
}
