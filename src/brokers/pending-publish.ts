import type { CallFailure } from '../webhooks/call-failures.ts';
import type { CallResult, FailureReason } from '../webhooks/call-result.ts';

/** A broker that is away; other reasons need an operator. */
const OF_THE_NETWORK: readonly FailureReason[] = ['timeout', 'dns', 'refused', 'reset'];

/** One message that waits for its acknowledgement, and its deadline. What comes later is ignored. */
export class PendingPublish {
  readonly startedAtMs = performance.now();
  isSettled = false;
  /** From now on the broker may have stored the message. */
  isSent = false;
  private readonly timer: NodeJS.Timeout;

  constructor(
    private readonly resolve: (result: CallResult) => void,
    private readonly timeoutMs: number,
    /** Those that are stopped together. */
    private readonly group: Set<PendingPublish> | undefined,
    private readonly onTimeout: (startedAtMs: number) => void,
  ) {
    this.timer = setTimeout(expire, timeoutMs, this);
    group?.add(this);
  }

  acknowledge(detail: string): void {
    this.settle({ kind: 'acknowledged', detail, durationMs: this.durationMs() });
  }

  fail({ reason, detail }: CallFailure): void {
    const unsent = !this.isSent && OF_THE_NETWORK.includes(reason);
    const failed = { kind: 'failed', reason, detail, durationMs: this.durationMs() } as const;
    this.settle(unsent ? { ...failed, unsent } : failed);
  }

  expire(): void {
    if (this.isSettled) return;
    const missing = this.isSent ? 'acknowledgement' : 'connection';
    this.fail({ reason: 'timeout', detail: `no ${missing} within ${this.timeoutMs} ms` });
    this.onTimeout(this.startedAtMs);
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
