const SHRINK_INTERVAL_MS = 1_000;

/**
 * How many calls to one listener this replica makes at a time: halved (at most once a second) when the receiver reports
 * overload (429, 502, 504), and increased by one for every full round of successful calls, up to the max.
 */
export class ConcurrencyWindow {
  private size: number;
  private inFlight = 0;
  private shrunkAtMs = Number.NEGATIVE_INFINITY;
  private readonly waiting: (() => void)[] = [];

  constructor(private readonly max: number = Number.POSITIVE_INFINITY) {
    this.size = max;
  }

  /** False: the window is full. Every successful entry must be followed by one `leave`. */
  tryEnter(): boolean {
    if (this.waiting.length > 0 || this.inFlight >= this.size) return false;
    this.inFlight += 1;
    return true;
  }

  /** Resolves when the call may be made. */
  enter(): Promise<void> {
    if (this.tryEnter()) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  leave(went: 'well' | 'badly' | 'throttled', nowMs: number = performance.now()): void {
    if (went === 'throttled') this.shrink(nowMs);
    else if (went === 'well') this.size = Math.min(this.max, this.size + 1 / this.size);
    this.inFlight -= 1;
    while (this.waiting.length > 0 && this.inFlight < this.size) {
      this.inFlight += 1;
      this.waiting.shift()!();
    }
  }

  /** Calls that were in flight together count once: sixteen answers of 429 report one overload. */
  private shrink(nowMs: number): void {
    if (nowMs - this.shrunkAtMs < SHRINK_INTERVAL_MS) return;
    this.size = Math.max(1, Math.floor(Math.min(this.size, this.inFlight) / 2));
    this.shrunkAtMs = nowMs;
  }
}
