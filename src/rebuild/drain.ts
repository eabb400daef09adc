import { Injectable } from '@nestjs/common';
import type { Next } from '../clock/loop.ts';
import { Loops } from '../clock/loops.ts';
import { Database } from '../database/database.ts';
import { InboxGate } from '../inbox/processing/inbox-gate.ts';
import { DRAIN, REQUEST_DRAIN } from './drain.sql.ts';

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
