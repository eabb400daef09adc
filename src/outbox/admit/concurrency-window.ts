const EVERY_MS = 1_000;

/**
 * How many calls to one listener this replica makes at a time: halved (once a second at most) when the receiver says it
 * has too much to do (429, 502, 504), and one more for every full round that went well, up to the most there may be.
 */
export class ConcurrencyWindow {
  private size: number;
  private inFlight = 0;
  private shrunkAtMs = Number.NEGATIVE_INFINITY;
  private readonly waiting: (() => void)[] = [];

  constructor(private readonly most: number = Number.POSITIVE_INFINITY) {
    this.size = most;
  }

  /** False: there is no room now. Every time it was entered it is left once, whatever happens. */
  tryEnter(): boolean {
    if (this.waiting.length > 0 || this.inFlight >= this.size) return false;
    this.inFlight += 1;
    return true;
  }

  /** Resolves when there is room. */
  enter(): Promise<void> {
    if (this.tryEnter()) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  leave(went: 'well' | 'badly' | 'throttled', nowMs: number = performance.now()): void {
    if (went === 'throttled') this.shrink(nowMs);
    else if (went === 'well') this.size = Math.min(this.most, this.size + 1 / this.size);
    this.inFlight -= 1;
    while (this.waiting.length > 0 && this.inFlight < this.size) {
      this.inFlight += 1;
      this.waiting.shift()!();
    }
  }

  /** What was in flight together counts as one: sixteen answers of 429 are one piece of news. */
  private shrink(nowMs: number): void {
    if (nowMs - this.shrunkAtMs < EVERY_MS) return;
    this.size = Math.max(1, Math.floor(Math.min(this.size, this.inFlight) / 2));
    this.shrunkAtMs = nowMs;
  }
}
