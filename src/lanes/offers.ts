import type { Along, LaneRow, Leased } from './leased.ts';

/**
 * Lanes that are offered to go along with a transaction. Each offer is open until it is known what became of that
 * transaction and, if it took the lanes, until `onLeased` is through with them: whoever stops waits for both.
 */
export class Offers<Row extends LaneRow> {
  private readonly open = new Set<Promise<void>>();

  get size(): number {
    return this.open.size;
  }

  make(along: Along<Row>, onLeased: (leased: Leased<Row>) => Promise<void> | void): Along<Row> {
    const { promise, resolve } = deferred();
    this.open.add(promise);
    void promise.then(() => this.open.delete(promise));
    return {
      statements: along.statements,
      leased: (answers) => {
        const leased = along.leased(answers);
        resolve(leased && onLeased(leased));
        return leased;
      },
      failed: (error) => {
        along.failed(error);
        resolve();
      },
    };
  }

  async allOver(): Promise<void> {
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
