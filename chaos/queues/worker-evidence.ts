import type { InjectedFault } from '../logged.ts';
import type { Fault } from '../schedule.ts';
import { nameOfLease, type PulledMessage, type SentVerdict, type WorkerCall } from './queue-history.ts';

/** A hand-out is committed without a flush: a server that crashes may forget those of its last moment. */
const CRASHES: readonly Fault[] = ['postgres-immediate', 'failover', 'disk-full'];
const FLUSHED_WITHIN_MS = 2_000;

/** A message as a worker received it, with its call. */
export interface Receipt extends PulledMessage {
  readonly call: WorkerCall;
}

/** What the workers recorded, to be found by the lease. */
export class WorkerEvidence {
  readonly receipts: readonly Receipt[];
  private readonly verdicts = new Map<string, SentVerdict[]>();
  private readonly received: ReadonlySet<string>;

  constructor(
    calls: readonly WorkerCall[],
    private readonly injected: readonly InjectedFault[],
  ) {
    this.receipts = calls.flatMap((call) => call.messages.map((message) => ({ ...message, call })));
    this.received = new Set(this.receipts.map(({ lease }) => nameOfLease(lease)));
    for (const verdict of calls.flatMap((call) => call.verdicts)) {
      const name = nameOfLease(verdict.lease);
      this.verdicts.set(name, [...(this.verdicts.get(name) ?? []), verdict]);
    }
  }

  /** Everything that was said about a lease. */
  verdictsOn(name: string): readonly SentVerdict[] {
    return this.verdicts.get(name) ?? [];
  }

  wasReceived(name: string): boolean {
    return this.received.has(name);
  }

  /** The server crashed at the time of this call: it may have forgotten the hand-out. */
  mayBeForgotten({ sentMs, doneMs }: Pick<WorkerCall, 'sentMs' | 'doneMs'>): boolean {
    return this.injected.some(
      ({ fault, fromMs, toMs }) =>
        CRASHES.includes(fault) && sentMs <= toMs && doneMs >= fromMs - FLUSHED_WITHIN_MS,
    );
  }
}
