import { Injectable } from '@nestjs/common';
import type { Next } from '../clock/loop.ts';
import { Loops } from '../clock/loops.ts';
import { Database } from '../database/database.ts';
import { InboxGate } from '../inbox/processing/inbox-gate.ts';

/**
 * Each drain of a rebuild is longer than the one before, up to 60 s, and live traffic has as long in between. $1 rebuild
 */
export const REQUEST_DRAIN = `
  UPDATE rebuild SET drain_until = clock_timestamp() + next.length, drains = drains + 1
  FROM (SELECT id, LEAST(60, 5 * 2 ^ LEAST(drains, 6)) * interval '1 second' AS length FROM rebuild WHERE id = $1) AS next
  WHERE rebuild.id = next.id AND rebuild.ended_at IS NULL AND (drain_until IS NULL OR drain_until < clock_timestamp() - next.length)`;

/** How long the inbox is to be drained, and how many rebuilds may ask for it. */
export const DRAIN = `
  SELECT count(*)::int AS open, COALESCE(max(extract(epoch FROM drain_until - clock_timestamp()) * 1000), 0)::int AS ms
  FROM rebuild WHERE ended_at IS NULL AND NOT paused AND status IN ('replaying', 'comparing', 'switching')`;

const IDLE_MS = 1_000;
const POLL_MS = 100;

/**
 * A switch calls no other system while live messages wait for it, so it is possible only when none of the last messages needs
 * its `prepare`. With steady traffic that moment does not come: for a few seconds all replicas take no further messages, and
 * the rebuild prepares and applies what is left, outside of the transaction of the switch.
 */
@Injectable()
export class Drain {
  constructor(
    private readonly database: Database,
    private readonly gate: InboxGate,
    loops: Loops,
  ) {
    loops.run('inbox', 'rebuild-drain', IDLE_MS, () => this.pass());
  }

  /** Returns whether it is drained now: not if the last one ended a short time ago. */
  async request(rebuild: number): Promise<boolean> {
    await this.database.execute(REQUEST_DRAIN, [rebuild]);
    await this.pass();
    return this.isActive;
  }

  get isActive(): boolean {
    return this.gate.isClosed;
  }

  private async pass(): Promise<Next> {
    const [row] = await this.database.query<{ open: number; ms: number }>(DRAIN);
    const { open, ms } = row!;
    if (ms > 0) this.gate.close(ms);
    else this.gate.open();
    return open > 0 ? { afterMs: POLL_MS } : 'idle';
  }
}
