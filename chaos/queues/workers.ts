import type { Api } from '../api.ts';
import type { WorkerCall } from './queue-history.ts';
import { QUEUES, type QueueTerms, WORKERS } from './queue-terms.ts';
import { Worker } from './worker.ts';

export interface WorkersOptions {
  readonly api: Api;
  readonly seed: number;
  readonly faults: boolean;
}

/** The workers of all queues of a run. */
export class Workers {
  readonly calls: WorkerCall[] = [];
  private readonly workers: Worker[] = [];
  private readonly running: Promise<void>[] = [];

  constructor(private readonly options: WorkersOptions) {}

  start(): void {
    for (const queue of QUEUES) this.startAt(queue, WORKERS);
  }

  /** At a queue that was created just now: fewer. */
  startAt({ name: queue }: Pick<QueueTerms, 'name'>, workers = WORKERS - 1): void {
    const { api, seed, faults } = this.options;
    for (let n = 0; n < workers; n++) {
      const number = this.workers.length;
      const worker = new Worker({
        ...{ api, calls: this.calls, queue, name: `${queue}-${n}`, faults },
        seed: seed * 1_000 + 700 + number,
      });
      this.workers.push(worker);
      const running = worker.run();
      running.catch(() => undefined);
      this.running.push(running);
    }
  }

  /** From now on none is killed, freezes or hangs up. */
  calm(): void {
    for (const worker of this.workers) worker.calm();
  }

  async finish(): Promise<void> {
    for (const worker of this.workers) worker.finish();
    await Promise.all(this.running);
  }

  get counts(): Record<string, number> {
    const pulls = this.calls.filter(({ verdicts }) => verdicts.length === 0);
    const received = pulls.flatMap(({ queue, messages }) => messages.map(({ id }) => `${queue} ${id}`));
    const verdicts = this.calls.flatMap((call) => call.verdicts);
    const ended = (kind: string) =>
      verdicts.filter((one) => one.kind === kind && one.outcome === 'done').length;
    return {
      pulls: pulls.length,
      pullsWithoutResponse: pulls.filter(({ status }) => status === undefined).length,
      handedToWorkers: received.length,
      repeatedToWorkers: received.length - new Set(received).size,
      acknowledged: ended('acknowledge'),
      retriesAskedFor: ended('retry'),
      rejectedByWorkers: ended('reject'),
      extended: ended('extend'),
      leasesFenced: verdicts.filter(({ outcome }) => outcome === 'fenced').length,
    };
  }
}
