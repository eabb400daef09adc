import { clientError } from '../errors.ts';

/** A message that this consumer has the lease of. */
interface Held {
  readonly controller: AbortController;
  readonly sinceMs: number;
  /** By how much its lease is extended. */
  readonly extendMs: number;
  /** When its lease is to be extended. */
  dueMs: number;
  isOverdue: boolean;
}

export interface HeldOptions {
  /** By how much leases are extended; undefined: by as much as the listener gives at first. */
  readonly leaseMs: number | undefined;
  readonly handlerTimeoutMs: number;
  /** More time is needed for it. */
  readonly extend: (lease: string, ms: number) => void;
  /** It takes longer than it may: its lease is not extended any more. */
  readonly overdue: (lease: string) => void;
}

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

  /** `sinceMs`: before the request that the lease came with; `leaseMs`: how long it is. */
  add(lease: string, sinceMs: number, leaseMs: number): AbortSignal {
    const controller = new AbortController();
    const { leaseMs: extendMs = leaseMs } = this.options;
    const dueMs = sinceMs + leaseMs / 3;
    this.held.set(lease, { controller, sinceMs: performance.now(), extendMs, dueMs, isOverdue: false });
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
    const { handlerTimeoutMs, extend, overdue } = this.options;
    for (const [lease, held] of this.held) {
      if (held.isOverdue) continue;
      if (nowMs - held.sinceMs >= handlerTimeoutMs) {
        held.isOverdue = true;
        const detail = `The handler took longer than ${handlerTimeoutMs} ms.`;
        held.controller.abort(clientError('timeout', 'Handler timeout', detail));
        overdue(lease);
      } else if (nowMs >= held.dueMs) {
        held.dueMs = nowMs + held.extendMs / 3;
        extend(lease, held.extendMs);
      }
    }
  }
}
