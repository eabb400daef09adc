import { clientError } from '../errors.ts';

/** A message that this consumer has the lease of. */
interface Held {
  readonly controller: AbortController;
  readonly sinceMs: number;
  /** When its lease is to be extended. */
  dueMs: number;
  isOverdue: boolean;
}

export interface HeldOptions {
  readonly leaseMs: number;
  readonly handlerTimeoutMs: number;
  /** More time is needed for these. */
  readonly extend: (leases: readonly string[]) => void;
  /** It takes longer than it may: its lease is not extended any more. */
  readonly overdue: (lease: string) => void;
}

/** The shortest lease that a listener can have. A pull does not say how long its leases are. */
const MIN_LEASE_MS = 1_000;
const TICK_MS = 100;

/** The messages being handled. Leases are extended when a third of their time has passed: two extensions may get lost. */
export class HeldMessages {
  private readonly held = new Map<string, Held>();
  private readonly timer: ReturnType<typeof setInterval>;

  constructor(private readonly options: HeldOptions) {
    this.timer = setInterval(() => this.extendAll(performance.now()), TICK_MS);
  }

  get size(): number {
    return this.held.size;
  }

  /** `sinceMs`: before the request that the lease came with. */
  add(lease: string, sinceMs: number): AbortSignal {
    const controller = new AbortController();
    const dueMs = sinceMs + Math.min(this.options.leaseMs, MIN_LEASE_MS) / 3;
    this.held.set(lease, { controller, sinceMs: performance.now(), dueMs, isOverdue: false });
    return controller.signal;
  }

  /** Returns false if the lease was lost in the meantime. */
  remove(lease: string): boolean {
    return this.held.delete(lease);
  }

  lose(lease: string): void {
    const held = this.held.get(lease);
    this.held.delete(lease);
    held?.controller.abort(
      clientError('lease-lost', 'Lease lost', 'Somebody else may have this message now.'),
    );
  }

  abortAll(): void {
    for (const { controller } of this.held.values())
      controller.abort(clientError('closed', 'Stopped', 'The consumer was stopped.'));
  }

  end(): void {
    clearInterval(this.timer);
  }

  private extendAll(nowMs: number): void {
    const { leaseMs, handlerTimeoutMs, extend, overdue } = this.options;
    const due: string[] = [];
    for (const [lease, held] of this.held) {
      if (held.isOverdue) continue;
      if (nowMs - held.sinceMs >= handlerTimeoutMs) {
        held.isOverdue = true;
        const detail = `The handler took longer than ${handlerTimeoutMs} ms.`;
        held.controller.abort(clientError('timeout', 'Handler timeout', detail));
        overdue(lease);
      } else if (nowMs >= held.dueMs) {
        held.dueMs = nowMs + leaseMs / 3;
        due.push(lease);
      }
    }
    if (due.length > 0) extend(due);
  }
}
