import type { Log } from '../telemetry/logger.ts';

/**
 * What a pass found: more to do now; nothing for the moment; nothing until a known time; something that cannot be done
 * yet and may be soon, or not for hours: looked at again after rests that grow up to the idle one.
 */
export type Next = 'again' | 'idle' | 'soon' | { readonly afterMs: number };

/** `progressed`: a pass that takes its time tells so that it does not stand still. */
export type Pass = (signal: AbortSignal, progressed: () => void) => Promise<Next>;

export interface LoopOptions {
  /** How long to rest when a pass found nothing and nobody wakes the loop. */
  readonly idleMs: number;
  readonly log: Log;
}

const MIN_SOON_MS = 50;
const MIN_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 5_000;

/**
 * The one shape of every background job: a pass, then a rest, then the next pass; never two at once.
 * `wake` cuts the rest short; a wake during a pass makes the next pass follow at once. A pass that throws is
 * logged and tried again with growing, jittered rests. `stop` lets the pass in flight end.
 */
export class Loop {
  /** When the last pass ended, well or badly, or got on with its work: a loop that stands still is what /livez looks for. */
  lastCycleAt = Date.now();
  /** When the last pass ended well. */
  lastProgressAt = Date.now();
  private running: Promise<void> | undefined;
  private readonly stopping = new AbortController();
  private woken = false;
  private endIdle: (() => void) | undefined;
  private failures = 0;
  /** Passes in a row that said so. */
  private soon = 0;

  constructor(
    readonly name: string,
    private readonly pass: Pass,
    private readonly options: LoopOptions,
  ) {}

  get isRunning(): boolean {
    return this.running !== undefined && !this.stopping.signal.aborted;
  }

  /** Between two passes, and nothing but the time or a wake ends it. */
  get isIdle(): boolean {
    return this.endIdle !== undefined;
  }

  start(): void {
    this.lastCycleAt = Date.now();
    this.lastProgressAt = this.lastCycleAt;
    this.running ??= this.run();
  }

  wake(): void {
    this.woken = true;
    this.endIdle?.();
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    this.endIdle?.();
    await this.running;
  }

  private async run(): Promise<void> {
    while (!this.stopping.signal.aborted) {
      this.woken = false;
      const restMs = await this.cycle();
      this.lastCycleAt = Date.now();
      if (restMs > 0) await this.idle(restMs);
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
        'a pass of a loop failed; it is tried again',
      );
      return backoffMs;
    }
  }

  private idleMsAfter(next: Next): number {
    const { idleMs } = this.options;
    this.soon = next === 'soon' ? this.soon + 1 : 0;
    if (next === 'again') return 0;
    if (next === 'soon') return Math.min(idleMs, doubled(MIN_SOON_MS, this.soon));
    return next === 'idle' ? idleMs : next.afterMs;
  }

  /** A pass that takes its time but gets on with it does not stand still. */
  private progressed(): void {
    this.lastCycleAt = Date.now();
    this.lastProgressAt = this.lastCycleAt;
  }

  private backoffMs(): number {
    const full = Math.min(MAX_BACKOFF_MS, doubled(MIN_BACKOFF_MS, this.failures));
    return Math.round(full * (0.5 + Math.random() / 2));
  }

  private idle(ms: number): Promise<void> {
    // After a failure a wake must not turn the back-off into a busy loop.
    if (this.stopping.signal.aborted || (this.woken && this.failures === 0)) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(done, ms);
      const loop = this;
      function done() {
        clearTimeout(timer);
        loop.endIdle = undefined;
        resolve();
      }
      this.endIdle = () => {
        if (this.failures === 0 || this.stopping.signal.aborted) done();
      };
    });
  }
}

/** With each time but the first; bounded, for a loop that goes on for years. */
export function doubled(ms: number, times: number): number {
  return ms * 2 ** Math.min(times - 1, 10);
}
