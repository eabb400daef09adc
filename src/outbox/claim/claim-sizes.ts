import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { listenerOfLane } from '../../listeners/listener.ts';

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

/** No listener takes more than a quarter of the lanes that are still free. */
const SHARE = 4;

/**
 * Chooses among lanes with something to send: the fewer lanes this replica may still lease, the fewer it takes of one
 * listener. So there is a lane left for the next listener, however many others hang.
 */
export function fairShare(
  lanes: readonly number[],
  limit: number,
  leasedBy: (listener: number) => number,
): { chosen: number[]; left: number[] } {
  const counts = new Map<number, number>();
  const chosen: number[] = [];
  const left: number[] = [];
  for (const lane of lanes) {
    const listener = listenerOfLane(lane);
    const count = counts.get(listener) ?? leasedBy(listener);
    const free = limit - chosen.length;
    const fits = free > 0 && count < Math.max(1, Math.floor(free / SHARE));
    (fits ? chosen : left).push(lane);
    counts.set(listener, count + (fits ? 1 : 0));
  }
  return { chosen, left };
}
