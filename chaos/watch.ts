import { setTimeout as pause } from 'node:timers/promises';
import type { Beside } from './database.ts';
import type { Fleet } from './fleet.ts';
import { type Violation, violation } from './violation.ts';

const HELD_WITHOUT_HOLD = ['inbox', 'outbox']
  .map(
    (table) => `
      SELECT id::text FROM ${table} AS row WHERE settled_at IS NULL AND waits = 'held' AND NOT EXISTS (
        SELECT FROM hold WHERE hold.queue = '${table}' AND hold.lane = row.lane AND hold.key = row.key)`,
  )
  .join(' UNION ALL ');

const MARKED_IN_FREE_LANE = ['inbox', 'outbox']
  .map(
    (table) => `
      SELECT row.id::text, lane.lane, lane.crashes,
             round(extract(epoch FROM clock_timestamp() - NULLIF(lane.leased_until, '-infinity')))::int AS seconds
      FROM ${table} AS row JOIN lane ON lane.queue = '${table}' AND lane.lane = row.lane
      WHERE row.settled_at IS NULL AND row.status = 'processing' AND lane.leased_until < clock_timestamp()`,
  )
  .join(' UNION ALL ');

interface Marked {
  readonly id: string;
  readonly lane: number;
  readonly crashes: number;
  /** Since its lease ended; null: it was released. */
  readonly seconds: number | null;
}

/** Looks all the time for what may never be, or not for long while somebody could change it. */
export class Watch {
  private readonly found = new Map<string, Violation>();
  private readonly markedMs = new Map<string, number>();
  private over = false;
  maxMarkMs = 0;

  constructor(
    private readonly database: Beside,
    private readonly fleet: Fleet,
    private readonly maxMarkedMs: number,
  ) {}

  async run(): Promise<void> {
    let lookedAt = Date.now();
    while (!this.over) {
      for (const { id } of await this.database.query<{ id: string }>(HELD_WITHOUT_HOLD))
        this.note(id, violation('never held without a hold', `${id} was held without a hold`));
      const marked = await this.database.query<Marked>(MARKED_IN_FREE_LANE);
      const now = Date.now();
      this.count(marked, now - lookedAt);
      lookedAt = now;
      await pause(200);
    }
  }

  end(): Violation[] {
    this.over = true;
    return [...this.found.values()];
  }

  private count(marked: readonly Marked[], sinceMs: number): void {
    const still = new Set(marked.map(({ id }) => id));
    for (const id of this.markedMs.keys()) if (!still.has(id)) this.markedMs.delete(id);
    for (const { id, lane, crashes, seconds } of marked) {
      const ms = (this.markedMs.get(id) ?? 0) + (this.fleet.able ? Math.min(sinceMs, 1_000) : 0);
      this.markedMs.set(id, ms);
      this.maxMarkMs = Math.max(this.maxMarkMs, ms);
      if (ms > this.maxMarkedMs)
        this.note(
          id,
          violation(
            'never marked in a free lane for long',
            `${id} is processing in lane ${lane}, free for ${seconds ?? 'all the'} s, after ${crashes} crashes in a row`,
          ),
        );
    }
  }

  private note(id: string, one: Violation): void {
    this.found.set(`${one.check} ${id}`, one);
  }
}
