import { Injectable } from '@nestjs/common';
import type { LaneRow, LeasedRows, PiggybackLease } from './lease-request.ts';

type Offer = (lanes: ReadonlySet<number>) => PiggybackLease<LaneRow> | undefined;

/**
 * The port between those who write to a queue and those who work on it in the same process: the worker may lease and
 * claim the lanes that are written to with the writer's own commit, a round trip or two before a wake-up would find them.
 */
@Injectable()
export class Piggyback {
  private readonly offers = new Map<string, Offer>();

  /** By whoever works on the queue. */
  serve(queue: string, offer: Offer): void {
    this.offers.set(queue, offer);
  }

  /** By whoever writes to these lanes; undefined: nobody here has time for them, and a wake-up has to do. */
  offer(queue: string, lanes: ReadonlySet<number>): PiggybackLease<LaneRow> | undefined {
    return this.offers.get(queue)?.(lanes);
  }
}

/**
 * Lanes that are offered to go along with a transaction. Each offer is open until it is known what became of that
 * transaction and, if it took the lanes, until `onLeased` is through with them: whoever stops waits for both.
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
      leased: (answers) => {
        const leased = piggyback.leased(answers);
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
