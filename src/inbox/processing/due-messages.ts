import { Injectable } from '@nestjs/common';
import type { Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { Database } from '../../database/database.ts';
import { Wakeups } from '../../lanes/wakeups.ts';

/**
 * inbox.wakeDue — messages that are due join the end of their lane in the order they were due, as if they were posted now:
 * they get a new position, so that a claim need not search before its last position. One replica at a time: two would each
 * take a part, and the later part could come first. $1 max
 */
export const WAKE_DUE = `
  WITH only_one AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(hashtext('sluice'), hashtext('inbox.wakeDue')) AS mine),
  due AS MATERIALIZED (
    SELECT inbox.position FROM inbox
    WHERE settled_at IS NULL AND waits = 'due' AND due_at <= statement_timestamp() AND (SELECT mine FROM only_one)
    ORDER BY due_at, position LIMIT $1
    FOR NO KEY UPDATE
  ),
  renumbered AS MATERIALIZED (
    SELECT position, nextval(pg_get_serial_sequence('inbox', 'position')) AS next FROM due
  )
  UPDATE inbox SET status = 'pending', waits = NULL, position = renumbered.next
  FROM renumbered WHERE inbox.position = renumbered.position
  RETURNING lane`;

/** inbox.nextDue — milliseconds until the next one. */
export const NEXT_DUE = `
  SELECT ceil(extract(epoch FROM due_at - clock_timestamp()) * 1000)::bigint AS ms FROM inbox
  WHERE settled_at IS NULL AND waits = 'due' ORDER BY due_at LIMIT 1`;

const MAX_AT_ONCE = 1_000;
const MAX_REST_MS = 1_000;

/** Scheduled messages become ready at their dueAt, by the database's clock. */
@Injectable()
export class DueMessages {
  constructor(
    private readonly database: Database,
    private readonly wakeups: Wakeups,
    loops: Loops,
  ) {
    loops.run('inbox', 'inbox-due', MAX_REST_MS, () => this.pass());
  }

  private async pass(): Promise<Next> {
    const rows = await this.database.query<{ lane: number }>(WAKE_DUE, [MAX_AT_ONCE]);
    if (rows.length) this.wakeups.announce('inbox', new Set(rows.map(({ lane }) => lane)));
    if (rows.length === MAX_AT_ONCE) return 'again';
    const [next] = await this.database.query<{ ms: number }>(NEXT_DUE);
    return { afterMs: Math.max(1, Math.min(next?.ms ?? MAX_REST_MS, MAX_REST_MS)) };
  }
}
