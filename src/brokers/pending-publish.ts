import type { CallFailure } from '../webhooks/call-failures.ts';
import type { CallResult } from '../webhooks/call-result.ts';

/** One message that waits for its acknowledgement, and its deadline. What comes later is ignored. */
export class PendingPublish {
  readonly startedAtMs = performance.now();
  isSettled = false;
  onTimeout: () => void = () => undefined;
  private readonly timer: NodeJS.Timeout;

  constructor(
    private readonly resolve: (result: CallResult) => void,
    private readonly timeoutMs: number,
    /** Those that are stopped together. */
    private readonly group: Set<PendingPublish> | undefined,
  ) {
    this.timer = setTimeout(expire, timeoutMs, this);
    group?.add(this);
  }

  acknowledge(detail: string): void {
    this.settle({ kind: 'acknowledged', detail, durationMs: this.durationMs() });
  }

  fail({ reason, detail }: CallFailure): void {
    this.settle({ kind: 'failed', reason, detail, durationMs: this.durationMs() });
  }

  expire(): void {
    if (this.isSettled) return;
    this.fail({ reason: 'timeout', detail: `no acknowledgement within ${this.timeoutMs} ms` });
    this.onTimeout();
  }

  leftMs(): number {
    return Math.max(1, this.timeoutMs - this.durationMs());
  }

  private settle(result: CallResult): void {
    if (this.isSettled) return;
    this.isSettled = true;
    clearTimeout(this.timer);
    this.group?.delete(this);
    this.resolve(result);
  }

  private durationMs(): number {
    return Math.round(performance.now() - this.startedAtMs);
  }
}

function expire(pending: PendingPublish): void {
  pending.expire();
}
