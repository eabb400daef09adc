import { isDatabaseAway } from '../../database/errors.ts';
import type { Log } from '../../telemetry/logger.ts';
import type { OutboxStore } from '../outbox-store.ts';
import { type Item, type Result, resultsOf } from './delivery-result.ts';

const RETRY_MS = 200;
const MAX_FAILURES = 3;

/** A transaction whose COMMIT was sent. The rows that it wrote carry its stamp. */
export interface SentCommit {
  readonly stamp: number;
  readonly items: readonly Item[];
}

/**
 * The transactions of one batch whose COMMIT was sent and whose reply was lost. Whether one took effect is known from
 * its stamp: if any row carries it, all of the transaction was committed.
 */
export class UncertainCommits {
  private readonly commits: SentCommit[] = [];

  constructor(
    private readonly store: OutboxStore,
    private readonly log: Log,
  ) {}

  get any(): boolean {
    return this.commits.length > 0;
  }

  add(commit: SentCommit): void {
    this.commits.push(commit);
  }

  /** The transactions that did take effect, and the positions of the deliveries that they wrote. */
  async committed(): Promise<{ commits: SentCommit[]; positions: ReadonlySet<number> }> {
    const results = resultsOf(this.commits.flatMap(({ items }) => items));
    const { stamps, positions } = await this.read(this.commits, results);
    return { commits: this.commits.filter(({ stamp }) => stamps.has(stamp)), positions };
  }

  /**
   * The positions among these results that a known commit, or an uncertain one before it, wrote. The commit must not be
   * repeated, so this waits while the database is away. Undefined: the rows cannot be read.
   */
  async positionsWritten(
    commit: SentCommit,
    results: readonly Result[],
  ): Promise<ReadonlySet<number> | undefined> {
    for (let failures = 0; failures < MAX_FAILURES; await retryDelay()) {
      try {
        return (await this.read([commit, ...this.commits], results)).positions;
      } catch (error) {
        if (!isDatabaseAway(error)) failures += 1;
        this.log.warn(
          { event: 'outbox.read-failed', results: results.length, failures, error },
          'reading back the results of a commit failed; it is retried',
        );
      }
    }
    return undefined;
  }

  private async read(commits: readonly SentCommit[], results: readonly Result[]) {
    const deliveries = results.map(({ delivery }) => delivery);
    const rows = await this.store.stamped(
      deliveries,
      commits.map(({ stamp }) => stamp),
    );
    return {
      stamps: new Set(rows.map(({ stamp }) => stamp)),
      positions: new Set(rows.map(({ position }) => position)),
    };
  }
}

export function retryDelay(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, RETRY_MS));
}
