import type { MigrationInterface, QueryRunner } from 'typeorm';

const ENDED = `waits IS NULL AND settled_at IS NOT NULL`;
const WAITING = (stage: string) => `
            WHEN 'pending'    THEN waits IS NULL AND settled_at IS NULL
            WHEN 'processing' THEN (waits IS NULL OR waits = 'held') AND settled_at IS NULL
            WHEN 'held'       THEN waits = 'held' AND settled_at IS NULL
            ${stage === 'inbox' ? `WHEN 'scheduled' THEN waits = 'due' AND settled_at IS NULL AND due_at IS NOT NULL` : ''}`;
const LAPSES = { inbox: ['dead', 'expired', 'superseded'], outbox: ['dead'] } as const;

export class DeadLetters1763251200022 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    /*
     * What errors have in common: without what differs from message to message. A status an endpoint answered with is
     * no such number. Frozen: rows carry the answer.
     */
    await runner.query(`
      CREATE FUNCTION fingerprint_of(error text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
        SELECT left(btrim(
          regexp_replace(
          regexp_replace(
          regexp_replace(
          regexp_replace(
          regexp_replace(COALESCE(error, ''),
            '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}', '<id>', 'g'),
            '"[^"]*"|\`[^\`]*\`', '<text>', 'g'),
            '(^|[^[:alnum:]_])''[^'']*''', '\\1<text>', 'g'),
            '(?<![[:alnum:]_])(?<!answered )[[:alnum:]_-]*[0-9][[:alnum:]_-]*([.:][[:alnum:]_-]*[0-9][[:alnum:]_-]*)*', '<n>', 'g'),
            '\\s+', ' ', 'g')), 200)
      $$`);
    for (const table of ['inbox', 'outbox'] as const) {
      /*
       * \`fingerprint\` is there for dead letters alone, so that indexes over them need not mention \`status\`: one that did
       * would make every pending → processing touch it. \`ruling\` is the last thing an operator decided about the row.
       */
      await runner.query(`
        ALTER TABLE ${table}
          ADD COLUMN fingerprint text GENERATED ALWAYS AS (CASE WHEN status = 'dead' THEN fingerprint_of(error) END) STORED,
          ADD COLUMN ruling bigint`);
      await this.setStatuses(runner, table, [...LAPSES[table], 'discarded']);
      await runner.query(
        `CREATE INDEX ${table}_dead ON ${table} (lapsed_at, position) WHERE fingerprint IS NOT NULL`,
      );
      // How much of what was revived is on its way.
      await runner.query(
        `CREATE INDEX ${table}_ruling ON ${table} (ruling) WHERE settled_at IS NULL AND ruling IS NOT NULL`,
      );
    }
    await runner.query(
      'CREATE INDEX inbox_dead_key ON inbox (lane, key, position) WHERE fingerprint IS NOT NULL',
    );
    await runner.query(
      'CREATE INDEX outbox_dead_key ON outbox (lane, key, position) WHERE fingerprint IS NOT NULL',
    );
    // A delivery by its id, where it is or was a dead letter: an index over all would cost every fan-out.
    await runner.query(
      'CREATE INDEX outbox_lapsed_id ON outbox (id) WHERE lapsed_at IS NOT NULL OR ruling IS NOT NULL',
    );
    // What operators decided about dead letters: all that were meant are written down first, then worked off.
    await runner.query(`
      CREATE TABLE ruling (
        id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        kind       text        NOT NULL CHECK (kind IN ('revive', 'discard')),
        filter     jsonb       NOT NULL,
        reason     text,
        matched    integer     NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        created_by text        NOT NULL,
        done_at    timestamptz
      )`);
    await runner.query('CREATE INDEX ruling_undone ON ruling (id) WHERE done_at IS NULL');
    await runner.query(`
      CREATE TABLE ruling_item (
        ruling   bigint  NOT NULL REFERENCES ruling ON DELETE CASCADE,
        stage    text    NOT NULL CHECK (stage IN ('inbox', 'outbox')),
        lane     integer NOT NULL,
        key      text    NOT NULL,
        position bigint  NOT NULL,
        outcome  text    CHECK (outcome IN ('done', 'skipped')),
        PRIMARY KEY (ruling, stage, lane, key, position)
      )`);
    await runner.query(
      'CREATE INDEX ruling_item_waiting ON ruling_item (ruling, stage, lane, key) WHERE outcome IS NULL',
    );
    await runner.query(
      'CREATE INDEX outbox_dead_listener ON outbox (listener) WHERE fingerprint IS NOT NULL',
    );
    // Which threshold of dead letters each queue was last reported at.
    await runner.query(`
      CREATE TABLE dead_letter_alarm (
        queue     text    PRIMARY KEY,
        threshold integer NOT NULL
      )`);
  }

  /** What was discarded is a dead letter again. */
  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE dead_letter_alarm');
    await runner.query('DROP TABLE ruling_item');
    await runner.query('DROP TABLE ruling');
    await runner.query('DROP INDEX outbox_lapsed_id');
    for (const table of ['inbox', 'outbox'] as const) {
      await runner.query(`UPDATE ${table} SET status = 'dead' WHERE status = 'discarded'`);
      await runner.query(`ALTER TABLE ${table} DROP COLUMN fingerprint, DROP COLUMN ruling`);
      await this.setStatuses(runner, table, LAPSES[table]);
    }
    await runner.query('DROP FUNCTION fingerprint_of');
  }

  private async setStatuses(runner: QueryRunner, table: string, lapses: readonly string[]): Promise<void> {
    const lapsed = lapses.map((status) => `WHEN '${status}' THEN ${ENDED} AND lapsed_at IS NOT NULL`);
    await runner.query(`
      ALTER TABLE ${table}
        DROP CONSTRAINT ${table}_status,
        ADD CONSTRAINT ${table}_status CHECK (
          CASE status ${WAITING(table)}
            WHEN 'finished' THEN ${ENDED} AND lapsed_at IS NULL
            ${lapsed.join('\n            ')}
            ELSE false
          END)`);
  }
}
