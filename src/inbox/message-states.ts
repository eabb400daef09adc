import { type BeforeApplicationShutdown, Injectable } from '@nestjs/common';
import { type MessageSeen, type MessageState, MessageStates } from '../contract/fresh.ts';
import { groupBy } from '../database/group-by.ts';
import { readAt } from '../database/read-place.ts';
import { Reads } from '../database/reads.ts';
import type { StandbyRun } from '../database/standby-run.ts';
import { sourceOfCaller } from './new-message.ts';

/**
 * messages.states — the state of the messages with these ids, one for each source that used the id, and the rows that decide
 * it. A superseded message takes effect through the message that superseded it, so it has the state of that one.
 */
export const MESSAGE_STATES = `
  WITH RECURSIVE asked AS (
    SELECT id, source, position, id AS row_id, status, settled_at, superseded_by FROM inbox WHERE id = ANY ($1::text[])
    UNION ALL
    SELECT asked.id, asked.source, winner.position, winner.id, winner.status, winner.settled_at, winner.superseded_by
    FROM asked JOIN inbox AS winner ON winner.position = asked.superseded_by
  )
  SELECT id, source, CASE WHEN bool_or(settled_at IS NULL) THEN 'waiting'
                  WHEN bool_or(status IN ('dead', 'expired', 'discarded')) THEN 'dead' ELSE 'finished' END AS state,
         json_agg(json_build_object('position', position, 'id', row_id)) AS rows
  FROM asked GROUP BY id, source`;

/**
 * messages.settled — how many of these rows are settled on this server. By position and id: after a failover another message
 * can have the position of one that was lost. $1 positions, $2 ids
 */
export const SETTLED_ROWS = `
  SELECT count(*)::int AS settled FROM unnest($1::bigint[], $2::text[]) AS asked (position, id)
  JOIN inbox USING (position, id) WHERE inbox.settled_at IS NOT NULL`;

/**
 * messages.archived — which of these messages are in history: all of these were applied, long ago. `own`: of this source, the
 * others of any. $1 ids, $2 sources
 */
export const ARCHIVED = `
  SELECT asked.id, asked.source, bool_or(found.identity = archive_identity(asked.source, asked.id)) AS own
  FROM unnest($1::text[], $2::text[]) AS asked(id, source)
  CROSS JOIN LATERAL (SELECT identity FROM archive_id WHERE archive_id.id = hashtextextended(asked.id, 0) LIMIT 20) AS found
  GROUP BY asked.id, asked.source`;

interface Waiter {
  readonly id: string;
  /** The caller's own source. */
  readonly source: string;
  readonly untilMs: number;
  readonly resolve: (seen: MessageSeen) => void;
  readonly fail: (error: unknown) => void;
}

interface StateRow extends MessageSeen {
  readonly id: string;
  readonly source: string;
}

const POLL_MS = 15;

/**
 * Read-your-writes through any replica: all waiting requests share one query per poll, however many they are. While no
 * request waits, there is no polling.
 */
@Injectable()
export class InboxMessageStates extends MessageStates implements BeforeApplicationShutdown {
  private readonly waiters = new Set<Waiter>();
  private polling: Promise<void> | undefined;

  constructor(private readonly reads: Reads) {
    super();
  }

  stateOf(id: string, caller: string, waitMs: number): Promise<MessageSeen> {
    if (id.includes('\u0000')) return Promise.resolve({ state: 'unknown', rows: [] });
    return new Promise((resolve, fail) => {
      const source = sourceOfCaller(caller);
      this.waiters.add({ id, source, untilMs: performance.now() + waitMs, resolve, fail });
      this.polling ??= this.pollWhileWaiting();
    });
  }

  async isSettledAt(standby: StandbyRun, rows: MessageSeen['rows'], waitMs: number): Promise<boolean> {
    const untilMs = performance.now() + waitMs;
    const parameters = [rows.map(({ position }) => position), rows.map(({ id }) => id)];
    const read = () => this.reads.query<{ settled: number }>(SETTLED_ROWS, parameters);
    try {
      while ((await readAt(standby, read))[0]!.settled < rows.length) {
        if (performance.now() >= untilMs) return false;
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
      return true;
    } catch {
      return false;
    }
  }

  async beforeApplicationShutdown(): Promise<void> {
    for (const waiter of this.waiters) waiter.resolve({ state: 'waiting', rows: [] });
    this.waiters.clear();
    await this.polling;
  }

  private async pollWhileWaiting(): Promise<void> {
    while (this.waiters.size > 0) {
      await this.poll();
      if (this.waiters.size > 0) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    this.polling = undefined;
  }

  private async poll(): Promise<void> {
    const asking = [...this.waiters];
    try {
      const ids = [...new Set(asking.map(({ id }) => id))];
      const rows = await this.reads.query<StateRow>(MESSAGE_STATES, [ids]);
      const byId = new Map(groupBy(rows, ({ id }) => id).map((group) => [group[0]!.id, group]));
      const rowsOf = ({ id }: Waiter) => byId.get(id) ?? [];
      const isForeign = (waiter: Waiter) => !rowsOf(waiter).some(({ source }) => source === waiter.source);
      const archived = await this.archived(asking.filter(isForeign));
      for (const waiter of asking) {
        const seen = seenBy(waiter, rowsOf(waiter), archived.get(waiter));
        if (seen.state !== 'waiting' || performance.now() >= waiter.untilMs)
          this.settle(waiter, () => waiter.resolve(seen));
      }
    } catch (error) {
      for (const waiter of asking) this.settle(waiter, () => waiter.fail(error));
    }
  }

  /** Of waiters whose own message is not in the inbox; absent: no message with this id is in history. */
  private async archived(waiters: readonly Waiter[]): Promise<ReadonlyMap<Waiter, 'own' | 'other'>> {
    if (waiters.length === 0) return new Map();
    const rows = await this.reads.query<{ id: string; source: string; own: boolean }>(ARCHIVED, [
      waiters.map(({ id }) => id),
      waiters.map(({ source }) => source),
    ]);
    const found = new Map(rows.map(({ id, source, own }) => [`${source} ${id}`, own] as const));
    return new Map(
      waiters.flatMap((waiter) => {
        const own = found.get(`${waiter.source} ${waiter.id}`);
        return own === undefined ? [] : [[waiter, own ? 'own' : 'other'] as const];
      }),
    );
  }

  private settle(waiter: Waiter, how: () => void): void {
    this.waiters.delete(waiter);
    how();
  }
}

/** The caller's own message; otherwise all messages with this id, with the least advanced state. */
function seenBy(
  { source }: Waiter,
  rows: readonly StateRow[],
  archived: 'own' | 'other' | undefined,
): MessageSeen {
  const own = rows.find((row) => row.source === source);
  if (own) return own;
  const isApplied = archived === 'own' || (archived !== undefined && rows.length === 0);
  if (isApplied) return { state: 'finished', rows: [] };
  const states: readonly MessageState[] = ['waiting', 'dead', 'finished'];
  const state = states.find((one) => rows.some((row) => row.state === one)) ?? 'unknown';
  return { state, rows: rows.flatMap((row) => row.rows) };
}
