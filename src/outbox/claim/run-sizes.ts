import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';

/** What is claimed and not sent has to be put back: few, as long as nothing is known of the receiver. */
const FIRST_SHARE = 16;
const GROWTH = 4;
/** So quick that writing the run down and claiming the next one takes as long as sending it. */
const QUICK_MS = 250;
const SLOW_MS = 2_000;

/**
 * How many deliveries of a lane are claimed at a time. Between two runs a lane waits for two commits; measured with a
 * receiver that answers at once, a third to a half of its time went by in runs of 32.
 */
@Injectable()
export class RunSizes {
  private readonly most: number;
  /** Of listeners that turned out to be quick. */
  private readonly grown = new Map<number, number>();

  constructor(@Inject(SETTINGS_TOKEN) settings: Pick<Settings, 'outboxRun'>) {
    this.most = settings.outboxRun;
  }

  first(listener: number): number {
    return this.grown.get(listener) ?? Math.max(2, Math.ceil(this.most / FIRST_SHARE));
  }

  /** After a run of a lane that was sent whole; one at a time is for a reason (a crash before) and stays. */
  next(listener: number, sent: number, tookMs: number): number {
    if (sent === 1) return 1;
    if (tookMs >= SLOW_MS) this.forget(listener);
    if (tookMs >= QUICK_MS) return Math.min(sent, this.most);
    const size = Math.min(this.most, sent * GROWTH);
    this.grown.set(listener, size);
    return size;
  }

  /** A run was broken off. */
  forget(listener: number): void {
    this.grown.delete(listener);
  }
}
