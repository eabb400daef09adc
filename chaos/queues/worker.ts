import { setTimeout as pause } from 'node:timers/promises';
import type { Api } from '../api.ts';
import { Random } from '../random.ts';
import { QueueClient, type Verdict } from './queue-client.ts';
import type { PulledMessage, WorkerCall } from './queue-history.ts';
import { PULL_LEASE_MS } from './queue-terms.ts';
import { isRejected, isRetried, killsWorkers } from './worker-rules.ts';

export interface WorkerOptions {
  readonly api: Api;
  readonly calls: WorkerCall[];
  readonly queue: string;
  readonly name: string;
  readonly seed: number;
  /** It is killed, by some messages, too; it freezes, and hangs up. */
  readonly faults: boolean;
}

type WorkerFault = 'kill' | 'kill in mid-pull' | 'freeze';

const FAULTS: readonly WorkerFault[] = ['kill', 'kill in mid-pull', 'freeze'];
/** How often an acknowledgement without a response is sent again. */
const SETTLE_ATTEMPTS = 3;

/** A consumer of a work queue: pulls, processes, settles each message; what it has when it is killed comes again. */
export class Worker {
  private readonly random: Random;
  private readonly client: QueueClient;
  private faulty: boolean;
  private nextFaultMs: number;
  private over = false;

  constructor({ api, calls, queue, name, seed, faults }: WorkerOptions) {
    this.random = new Random(seed);
    this.client = new QueueClient(api, this.random, calls, queue, name);
    this.faulty = faults;
    this.nextFaultMs = Date.now() + this.random.between(500, 3_000);
  }

  async run(): Promise<void> {
    while (!this.over) {
      const fault = this.dueFault();
      if (fault === 'kill in mid-pull') await this.hangUp();
      else {
        const messages = await this.client.pull(this.pullOptions());
        if (!messages) await pause(this.random.between(50, 400));
        else if (messages.length > 0) await this.handle(messages, fault);
      }
    }
  }

  calm(): void {
    this.faulty = false;
  }

  /** It ends after its pull. */
  finish(): void {
    this.over = true;
  }

  private pullOptions() {
    const { random } = this;
    const max = random.chance(0.3) ? 1 + random.below(3) : 5 + random.below(25);
    return { max, waitMs: Math.round(random.between(0, 1_500)) };
  }

  private dueFault(): WorkerFault | undefined {
    if (!this.faulty || Date.now() < this.nextFaultMs) return undefined;
    this.nextFaultMs = Date.now() + this.random.between(3_000, 8_000);
    return this.random.one(FAULTS);
  }

  private async hangUp(): Promise<void> {
    const signal = AbortSignal.timeout(Math.round(this.random.between(1, 300)));
    await this.client.pull({ ...this.pullOptions(), signal });
  }

  private async handle(messages: readonly PulledMessage[], fault: WorkerFault | undefined): Promise<void> {
    if (fault === 'kill') return;
    if (fault === 'freeze') await pause(PULL_LEASE_MS * this.random.between(0.9, 1.8));
    await this.process(messages);
  }

  /** In parts, so that one message does not wait for all others; some take longer than their lease, and are extended. */
  private async process(messages: readonly PulledMessage[]): Promise<void> {
    const { random } = this;
    const size = 1 + random.below(messages.length);
    for (let from = 0; from < messages.length; from += size) {
      const part = messages.slice(from, from + size);
      if (this.faulty && part.some(({ id }) => killsWorkers(id))) return;
      if (random.chance(0.03)) await this.takeLong(messages.slice(from));
      else await pause(random.between(0, 8));
      const verdicts = part.map((message) => this.verdictOn(message));
      await this.settle(verdicts);
      // A client that does not know that its request had a response.
      if (random.chance(0.03)) await this.settle(verdicts);
    }
  }

  /** Extends what it has, then works for longer than the rest of the first lease. */
  private async takeLong(rest: readonly PulledMessage[]): Promise<void> {
    await this.settle(rest.map(({ lease }) => ({ lease, kind: 'extend' })));
    await pause(PULL_LEASE_MS * this.random.between(0.3, 0.8));
  }

  private verdictOn({ lease, id, attempt }: PulledMessage): Verdict {
    if (isRejected(id)) return { lease, kind: 'reject' };
    if (!isRetried({ id, attempt })) return { lease, kind: 'acknowledge' };
    const afterMs = this.random.chance(0.5) ? Math.round(this.random.between(0, 500)) : undefined;
    return { lease, kind: 'retry', afterMs };
  }

  private async settle(verdicts: readonly Verdict[]): Promise<void> {
    for (let attempt = 0; attempt < SETTLE_ATTEMPTS; attempt++) {
      if (await this.client.settle(verdicts)) return;
      await pause(this.random.between(20, 200));
    }
  }
}
