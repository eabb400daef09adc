import { Injectable } from '@nestjs/common';
import type { Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { groupBy } from '../../database/group-by.ts';
import { type Listener, listenerOfLane } from '../../listeners/listener.ts';
import { Listeners } from '../../listeners/listeners.ts';
import { LeaseStore } from './lease-store.ts';
import type { LeaseRef } from './lease-token.ts';
import { Leases } from './leases.ts';

const SCAN_MS = 500;
const MIN_SCAN_MS = 20;
const MAX_LEASES = 500;

/** A hand-out that may have been committed, without a consumer that knows of it. */
interface Uncertain {
  readonly listener: Listener;
  readonly token: string;
  /** Its leases have expired by then. */
  readonly untilMs: number;
}

/**
 * A message whose lease ran out is handed out again, or is a dead letter after its last attempt. Every replica does this,
 * so it works as long as any is there.
 */
@Injectable()
export class ExpiredLeases {
  private uncertain: Uncertain[] = [];

  constructor(
    private readonly store: LeaseStore,
    private readonly leases: Leases,
    private readonly listeners: Listeners,
    loops: Loops,
  ) {
    loops.run('any', 'pull-leases', SCAN_MS, () => this.pass());
  }

  addUncertain(listener: Listener, token: string): void {
    this.uncertain.push({ listener, token, untilMs: performance.now() + listener.leaseMs });
  }

  async pass(): Promise<Next> {
    if (!this.mayHaveLeases()) return 'idle';
    await this.giveBackUncertain();
    const expired = await this.store.expired(MAX_LEASES);
    for (const refs of groupBy(expired, ({ lane }) => listenerOfLane(lane))) await this.expire(refs);
    if (expired.length === MAX_LEASES) return 'again';
    const nextMs = (await this.store.nextExpiryMs()) ?? SCAN_MS;
    return { afterMs: Math.min(SCAN_MS, Math.max(nextMs, MIN_SCAN_MS)) };
  }

  private mayHaveLeases(): boolean {
    return this.listeners.deleted().size > 0 || this.listeners.all().some(({ mode }) => mode === 'pull');
  }

  private async expire(refs: readonly LeaseRef[]): Promise<void> {
    const number = listenerOfLane(refs[0]!.lane);
    const listener = this.listeners.byNumber(number);
    if (!listener) return this.leases.release(number, refs);
    await this.leases.settle(
      listener,
      refs.map((ref) => [ref, { kind: 'expired' }] as const),
    );
  }

  private async giveBackUncertain(): Promise<void> {
    const nowMs = performance.now();
    this.uncertain = this.uncertain.filter(({ untilMs }) => untilMs > nowMs);
    for (const one of [...this.uncertain]) {
      const refs = await this.store.handedOut(one.listener.number, one.token);
      await this.leases.settle(
        one.listener,
        refs.map((ref) => [ref, { kind: 'returned' }] as const),
      );
      this.uncertain = this.uncertain.filter((other) => other !== one);
    }
  }
}
