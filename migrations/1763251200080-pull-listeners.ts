import type { MigrationInterface, QueryRunner } from 'typeorm';

const REASONS = (reasons: string) =>
  `reason IN ('retry', 'deferred', 'rate', 'dead-letter', 'operator'${reasons})`;

/**
 * Listeners that are pulled. Their lanes are leased for ever, so that no replica sends from them.
 *
 * `pull_lease` has one row per delivery that a consumer has now, until it is settled or the lease ends. A delivery that is
 * handed out does not change in the outbox: its row there would have no room for another version, and every index would
 * have to be changed. `outbox.lease` is the token of the hand-out that was settled last; in no index.
 *
 * A hold with the reason `leased` has no end: deliveries of a key wait behind the one that is in flight.
 */
export class PullListeners1763251200080 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE outbox ADD COLUMN lease uuid');
    await runner.query(`
      CREATE TABLE pull_lease (
        lane       integer     NOT NULL,
        position   bigint      NOT NULL,
        key        text        NOT NULL,
        token      uuid        NOT NULL,
        attempt    smallint    NOT NULL,
        handed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
        expires_at timestamptz NOT NULL,
        PRIMARY KEY (lane, position)
      ) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)`);
    await this.setReasons(runner, `, 'leased'`);
  }

  /** What is in flight waits again; a version without pulling does not send to such a listener. */
  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`UPDATE hold SET until = now(), reason = 'operator' WHERE reason = 'leased'`);
    await this.setReasons(runner, '');
    await runner.query('DROP TABLE pull_lease');
    await runner.query('ALTER TABLE outbox DROP COLUMN lease');
    await runner.query(
      `UPDATE lane SET leased_until = '-infinity' WHERE queue = 'outbox' AND leased_until = 'infinity'`,
    );
  }

  private async setReasons(runner: QueryRunner, more: string): Promise<void> {
    await runner.query('ALTER TABLE hold DROP CONSTRAINT IF EXISTS hold_reason_check');
    await runner.query(
      `ALTER TABLE hold ADD CONSTRAINT hold_reason_check CHECK (${REASONS(more)}) NOT VALID`,
    );
    await runner.query('ALTER TABLE hold VALIDATE CONSTRAINT hold_reason_check');
  }
}
