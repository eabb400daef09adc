import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import type { HoldRequest } from '../../lanes/lane-queue-types.ts';
import { Wakeups } from '../../lanes/wakeups.ts';

/** Wakes a lane when a short hold in it is due: the next scan of all lanes would find it too late. */
@Injectable()
export class HoldTimers {
  private readonly maxMs: number;
  private readonly timers = new Set<NodeJS.Timeout>();
  private stopped = false;

  constructor(
    @Inject(SETTINGS_TOKEN) settings: Settings,
    private readonly wakeups: Wakeups,
  ) {
    this.maxMs = settings.outboxPoll * 2;
  }

  /** After the holds are committed. */
  add(holds: readonly HoldRequest[]): void {
    if (this.stopped) return;
    for (const { lane, forMs } of holds) {
      if (forMs === undefined || forMs > this.maxMs) continue;
      const timer = setTimeout(() => {
        this.timers.delete(timer);
        this.wakeups.wake('outbox', new Set([lane]));
      }, forMs + 1);
      this.timers.add(timer);
    }
  }

  stop(): void {
    this.stopped = true;
    for (const timer of this.timers) clearTimeout(timer);
    this.timers.clear();
  }
}
