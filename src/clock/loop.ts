import type { Log } from '../telemetry/logger.ts';

/**
 * What to do after a pass. `again`: there is more to do, run the next pass at once. `idle`: there is nothing to do for now.
 * `soon`: there is work that cannot be done yet; poll with growing intervals, up to the idle one. `afterMs`: there is
 * nothing to do until a known time.
 */
export type Next = 'again' | 'idle' | 'soon' | { readonly afterMs: number };

/** A pass that takes long calls `progressed` now and then, so that it is not reported as stalled. */
export type Pass = (signal: AbortSignal, progressed: () => void) => Promise<Next>;

export interface LoopOptions {
  /** Time until the next pass after one that found nothing, unless the loop is woken. */
  readonly idleMs: number;
  readonly log: Log;
}

const MIN_SOON_MS = 50;
const MIN_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 5_000;

/**
 * The one shape of every background job: a pass, an idle time, the next pass; never two passes at once. `wake` ends the
 * idle time; a wake during a pass makes the next pass follow at once. A pass that throws is logged and retried with
 * exponential, jittered back-off. `stop` waits for the pass in flight.
 */
export class Loop {
  /** When the last pass ended, successfully or not, or last reported progress; /livez uses it to find stalled loops. */
  lastCycleAt = Date.now();
  /** When a pass last succeeded or reported progress. */
  lastProgressAt = Date.now();
  private running: Promise<void> | undefined;
  private readonly stopping = new AbortController();
  private woken = false;
  private interruptIdle: (() => void) | undefined;
  private failures = 0;
  /** Number of consecutive passes that returned `soon`. */
  private soonCount = 0;

  constructor(
    readonly name: string,
    private readonly pass: Pass,
    private readonly options: LoopOptions,
  ) {}

  get isRunning(): boolean {
    return this.running !== undefined && !this.stopping.signal.aborted;
  }

  /** The loop is between two passes, and waits for its timer or a wake. */
  get isIdle(): boolean {
    return this.interruptIdle !== undefined;
  }

  start(): void {
    this.lastCycleAt = Date.now();
    this.lastProgressAt = this.lastCycleAt;
    this.running ??= this.run();
  }

  wake(): void {
    this.woken = true;
    this.interruptIdle?.();
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    this.interruptIdle?.();
    await this.running;
  }

  private async run(): Promise<void> {
    while (!this.stopping.signal.aborted) {
      this.woken = false;
      const waitMs = await this.cycle();
      this.lastCycleAt = Date.now();
      if (waitMs > 0) await this.idle(waitMs);
    }
  }

  private async cycle(): Promise<number> {
    try {
      const next = await this.pass(this.stopping.signal, () => this.progressed());
      this.failures = 0;
      this.progressed();
      return this.idleMsAfter(next);
    } catch (error) {
      this.failures += 1;
      const backoffMs = this.backoffMs();
      this.options.log.error(
        { event: 'loop.failed', loop: this.name, failures: this.failures, retryInMs: backoffMs, error },
        'a pass of a loop failed; it will be retried',
      );
      return backoffMs;
    }
  }

  private idleMsAfter(next: Next): number {
    const { idleMs } = this.options;
    this.soonCount = next === 'soon' ? this.soonCount + 1 : 0;
    if (next === 'again') return 0;
    if (next === 'soon') return Math.min(idleMs, doubled(MIN_SOON_MS, this.soonCount));
    return next === 'idle' ? idleMs : next.afterMs;
  }

  /** A pass that takes long but makes progress is not stalled. */
  private progressed(): void {
    this.lastCycleAt = Date.now();
    this.lastProgressAt = this.lastCycleAt;
  }

  private backoffMs(): number {
    const full = Math.min(MAX_BACKOFF_MS, doubled(MIN_BACKOFF_MS, this.failures));
    return Math.round(full * (0.5 + Math.random() / 2));
  }

  private idle(ms: number): Promise<void> {
    // After a failure a wake does not end the back-off: it could turn it into a busy loop.
    if (this.stopping.signal.aborted || (this.woken && this.failures === 0)) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(done, ms);
      const loop = this;
      function done() {
        clearTimeout(timer);
        loop.interruptIdle = undefined;
        resolve();
      }
      this.interruptIdle = () => {
        if (this.failures === 0 || this.stopping.signal.aborted) done();
      };
    });
  }
}

/** `ms` doubled with every time after the first; the exponent is bounded, for a loop that fails for years. */
export function doubled(ms: number, times: number): number {
  return ms * 2 ** Math.min(times - 1, 10);
}
