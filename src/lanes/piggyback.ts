import { Injectable } from '@nestjs/common';
import type { LaneRow, LeasedRows, PiggybackLease } from './lane-queue-types.ts';

type LeaseFactory = (lanes: ReadonlySet<number>) => PiggybackLease<LaneRow> | undefined;

/**
 * The port between the writers and the workers of a queue in the same process: a worker can lease the written lanes and claim
 * from them in the writer's own transaction, one or two round trips earlier than after a wake-up.
 */
@Injectable()
export class Piggyback {
  private readonly factories = new Map<string, LeaseFactory>();

  /** Called by the worker of the queue. */
  register(queue: string, factory: LeaseFactory): void {
    this.factories.set(queue, factory);
  }

  /**
   * Called by the writer to these lanes; asks `piggybackLease` of InboxProcessingTrigger or OutboxProcessor. Undefined: no
   * worker of this process is idle; a wake-up must suffice.
   */
  leaseFor(queue: string, lanes: ReadonlySet<number>): PiggybackLease<LaneRow> | undefined {
    return this.factories.get(queue)?.(lanes);
  }
}

/**
 * Piggyback leases that are not done yet. Each is open until the outcome of its transaction is known and, if it leased the
 * lanes, until `onLeased` has finished with them: a shutdown waits for both.
 */
export class PiggybackLeases<Row extends LaneRow> {
  private readonly open = new Set<Promise<void>>();

  get size(): number {
    return this.open.size;
  }

  track(
    piggyback: PiggybackLease<Row>,
    onLeased: (leased: LeasedRows<Row>) => Promise<void> | void,
  ): PiggybackLease<Row> {
    const { promise, resolve } = deferred();
    this.open.add(promise);
    void promise.then(() => this.open.delete(promise));
    return {
      statements: piggyback.statements,
      leased: (results) => {
        const leased = piggyback.leased(results);
        resolve(leased && onLeased(leased));
        return leased;
      },
      failed: (error) => {
        piggyback.failed(error);
        resolve();
      },
    };
  }

  async allSettled(): Promise<void> {
    while (this.open.size > 0) await Promise.all(this.open);
  }
}

function deferred() {
  let resolve!: (value?: Promise<void> | void) => void;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
