import { type BeforeApplicationShutdown, Injectable } from '@nestjs/common';
import { isConflictOfTransactions, isDatabaseAway } from '../../database/errors.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import type { Listener } from '../../listeners/listener.ts';
import { type LeaseOutcome, LeaseStore, type SettledLease } from './lease-store.ts';
import type { LeaseRef } from './lease-token.ts';
import { PullMetrics } from './pull-metrics.ts';
import { type Settling, settlingOf, type Verdict } from './settling.ts';

/** The queue of wake-ups that says: deliveries of these lanes are no longer in flight. */
export const SETTLED = 'pull';

interface SettleRequest {
  readonly settlings: readonly Settling[];
  readonly resolve: (settled: readonly SettledLease[]) => void;
  readonly reject: (error: unknown) => void;
}

const MAX_GROUP = 2_000;
const MAX_TRIES = 3;

/**
 * Settles leases. Requests for a listener that arrive while a transaction for it is in flight share the next one: a COMMIT
 * takes as long for many as for one.
 */
@Injectable()
export class Leases implements BeforeApplicationShutdown {
  private readonly requests = new Map<number, SettleRequest[]>();
  private readonly writing = new Set<Promise<void>>();

  constructor(
    private readonly store: LeaseStore,
    private readonly wakeups: Wakeups,
    private readonly metrics: PullMetrics,
  ) {}

  async beforeApplicationShutdown(): Promise<void> {
    while (this.writing.size > 0) await Promise.all(this.writing);
  }

  /** Resolves after the commit, with the outcomes in the order given. No lease may be given twice. */
  async settle(
    listener: Listener,
    verdicts: readonly (readonly [LeaseRef, Verdict])[],
  ): Promise<LeaseOutcome[]> {
    const settlings = verdicts.map(([ref, verdict]) => settlingOf(ref, verdict, listener));
    const settled = await this.write(listener.number, settlings);
    for (const [index, { changed, durationMs }] of settled.entries())
      if (changed) this.metrics.settled(listener.name, verdicts[index]![1], durationMs!);
    return settled.map(({ outcome }) => outcome);
  }

  /** For expired leases of a listener that was deleted: nothing is known about its attempts. */
  async release(listener: number, refs: readonly LeaseRef[]): Promise<void> {
    await this.write(
      listener,
      refs.map((ref) => ({ ref, kind: 'return', late: true })),
    );
  }

  private write(listener: number, settlings: readonly Settling[]): Promise<readonly SettledLease[]> {
    if (settlings.length === 0) return Promise.resolve([]);
    return new Promise((resolve, reject) => {
      const request = { settlings, resolve, reject };
      const waiting = this.requests.get(listener);
      if (waiting) waiting.push(request);
      else {
        const requests = [request];
        this.requests.set(listener, requests);
        const written = this.writeAll(listener, requests).finally(() => this.writing.delete(written));
        this.writing.add(written);
      }
    });
  }

  private async writeAll(listener: number, requests: SettleRequest[]): Promise<void> {
    await new Promise(setImmediate);
    while (requests.length > 0) await this.writeGroup(takeGroup(requests));
    this.requests.delete(listener);
  }

  /** One request that cannot be written must not fail the others. */
  private async writeGroup(group: readonly SettleRequest[]): Promise<void> {
    const all = group.flatMap(({ settlings }) => settlings);
    try {
      const settled = await this.settleOrRetry(all);
      let from = 0;
      for (const { settlings, resolve } of group) {
        resolve(settled.slice(from, from + settlings.length));
        from += settlings.length;
      }
      this.announce(all, settled);
    } catch (error) {
      if (group.length === 1 || isDatabaseAway(error)) for (const { reject } of group) reject(error);
      else for (const request of group) await this.writeGroup([request]);
    }
  }

  /** A replay or a revive of the same keys locks their holds in another order. */
  private async settleOrRetry(all: readonly Settling[]): Promise<SettledLease[]> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.store.settle(all);
      } catch (error) {
        if (tries === MAX_TRIES || !isConflictOfTransactions(error)) throw error;
      }
    }
  }

  private announce(all: readonly Settling[], settled: readonly SettledLease[]): void {
    const ended = all.filter(({ kind }, index) => kind !== 'extend' && settled[index]!.changed);
    if (ended.length > 0) this.wakeups.announce(SETTLED, new Set(ended.map(({ ref }) => ref.lane)));
  }
}

/** The oldest requests, as far as they fit into one transaction and name no lease twice. */
function takeGroup(requests: SettleRequest[]): SettleRequest[] {
  const positions = new Set<number>();
  let size = 0;
  const end = requests.findIndex(({ settlings }, index) => {
    size += settlings.length;
    const repeated = settlings.some(({ ref }) => positions.has(ref.position));
    for (const { ref } of settlings) positions.add(ref.position);
    return index > 0 && (repeated || size > MAX_GROUP);
  });
  return requests.splice(0, end < 0 ? requests.length : end);
}
