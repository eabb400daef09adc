import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';

/**
 * The first claim of a listener is a 16th of the max: deliveries that are claimed and not sent have to be put back, so
 * few are claimed while nothing is known about the receiver.
 */
const FIRST_FRACTION = 16;
const GROWTH = 4;
/** Below this, writing the results of a run and claiming the next one take as long as sending it. */
const QUICK_MS = 250;
const SLOW_MS = 2_000;

/**
 * How many deliveries of a lane are claimed at a time. Between two runs a lane waits for two commits; measured with a
 * receiver that responds at once, runs of 32 spent a third to a half of their time on that.
 */
@Injectable()
export class RunSizes {
  private readonly max: number;
  /** Of listeners that turned out to be quick. */
  private readonly grown = new Map<number, number>();

  constructor(@Inject(SETTINGS_TOKEN) settings: Pick<Settings, 'outboxRun'>) {
    this.max = settings.outboxRun;
  }

  first(listener: number): number {
    return this.grown.get(listener) ?? Math.max(2, Math.ceil(this.max / FIRST_FRACTION));
  }

  /** After a run that sent everything it claimed. A size of 1 has a reason (an earlier crash) and stays. */
  next(listener: number, sent: number, tookMs: number): number {
    if (sent === 1) return 1;
    if (tookMs >= SLOW_MS) this.forget(listener);
    if (tookMs >= QUICK_MS) return Math.min(sent, this.max);
    const size = Math.min(this.max, sent * GROWTH);
    this.grown.set(listener, size);
    return size;
  }

  /** After a run that stopped early. */
  forget(listener: number): void {
    this.grown.delete(listener);
  }
}
