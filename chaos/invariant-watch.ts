import { setTimeout as pause } from 'node:timers/promises';
import type { Fleet } from './fleet.ts';
import type { ObserverDatabase } from './observer-database.ts';
import { type Violation, violation } from './violation.ts';

const HELD_WITHOUT_HOLD = ['inbox', 'outbox']
  .map(
    (table) => `
      SELECT id::text FROM ${table} AS row WHERE settled_at IS NULL AND waits = 'held' AND NOT EXISTS (
        SELECT FROM hold WHERE hold.queue = '${table}' AND hold.lane = row.lane AND hold.key = row.key)`,
  )
  .join(' UNION ALL ');

/** What is owed to a listener that is paused, disabled or behind an open circuit waits for that listener, not for a replica. */
const CLOSED: Record<string, string> = {
  inbox: 'false',
  outbox: `EXISTS (
        SELECT FROM listener LEFT JOIN gate ON gate.listener = listener.number
        WHERE listener.number = lane.lane / 256
          AND (listener.state <> 'active' OR gate.openings > 0 OR gate.closed_until > clock_timestamp()))`,
};

const PROCESSING_IN_FREE_LANE = ['inbox', 'outbox']
  .map(
    (table) => `
      SELECT row.id::text, lane.lane, lane.crashes,
             round(extract(epoch FROM clock_timestamp() - NULLIF(lane.leased_until, '-infinity')))::int AS seconds
      FROM ${table} AS row JOIN lane ON lane.queue = '${table}' AND lane.lane = row.lane
      WHERE row.settled_at IS NULL AND row.status = 'processing' AND lane.leased_until < clock_timestamp()
        AND NOT ${CLOSED[table]}`,
  )
  .join(' UNION ALL ');

const POLL_MS = 200;
/**
 * What one poll counts at most. It takes longer while the database is unavailable, or on a machine that is starved: then
 * everything takes longer, also what is waited for.
 */
const MAX_COUNTED_MS = 300;

interface StaleRow {
  readonly id: string;
  readonly lane: number;
  readonly crashes: number;
  /** Since its lease expired; null: it was released. */
  readonly seconds: number | null;
}

/** Polls the tables during the run for states that must never exist, or not for long while a replica works that could end them. */
export class InvariantWatch {
  private readonly found = new Map<string, Violation>();
  private readonly staleMs = new Map<string, number>();
  private over = false;
  maxStaleMs = 0;

  constructor(
    private readonly database: ObserverDatabase,
    private readonly fleet: Fleet,
    private readonly staleLimitMs: number,
  ) {}

  async run(): Promise<void> {
    let polledAt = Date.now();
    while (!this.over) {
      for (const { id } of await this.database.query<{ id: string }>(HELD_WITHOUT_HOLD))
        this.note(id, violation('never held without a hold', `${id} was held without a hold`));
      const stale = await this.database.query<StaleRow>(PROCESSING_IN_FREE_LANE);
      const now = Date.now();
      this.count(stale, now - polledAt);
      polledAt = now;
      await pause(POLL_MS);
    }
  }

  end(): Violation[] {
    this.over = true;
    return [...this.found.values()];
  }

  private count(stale: readonly StaleRow[], sinceMs: number): void {
    const still = new Set(stale.map(({ id }) => id));
    for (const id of this.staleMs.keys()) if (!still.has(id)) this.staleMs.delete(id);
    for (const { id, lane, crashes, seconds } of stale) {
      const ms =
        (this.staleMs.get(id) ?? 0) + (this.fleet.anyWorking ? Math.min(sinceMs, MAX_COUNTED_MS) : 0);
      this.staleMs.set(id, ms);
      this.maxStaleMs = Math.max(this.maxStaleMs, ms);
      if (ms > this.staleLimitMs)
        this.note(
          id,
          violation(
            'never processing in a free lane for long',
            `${id} is processing in lane ${lane}, free for ${seconds ?? '?'} s, after ${crashes} crashes in a row`,
          ),
        );
    }
  }

  private note(id: string, one: Violation): void {
    this.found.set(`${one.check} ${id}`, one);
  }
}
