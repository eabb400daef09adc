import { Injectable } from '@nestjs/common';
import { isDatabaseAway } from '../database/faults.ts';
import { byLane, type ClaimedDelivery } from './claimed-delivery.ts';
import type { HeldLane } from './held-lane.ts';
import { OutboxQueue } from './outbox-queue.ts';

interface Hungry {
  readonly held: HeldLane;
  resolve(rows: ClaimedDelivery[]): void;
  reject(error: unknown): void;
}

/**
 * One claim takes as long as sending that many: were it for all lanes, all would wait for it together, be sent from
 * together and be empty together. In turns, some are always being sent from.
 */
const MOST_TOGETHER = 1_024;

/** Lanes that have sent what they had ask for more together: while one claim is on its way, the next ones gather. */
@Injectable()
export class Claims {
  private hungry: Hungry[] = [];
  private claiming = false;

  constructor(private readonly queue: OutboxQueue) {}

  next(held: HeldLane): Promise<ClaimedDelivery[]> {
    return new Promise((resolve, reject) => {
      this.hungry.push({ held, resolve, reject });
      if (!this.claiming) void this.feed();
    });
  }

  private async feed(): Promise<void> {
    this.claiming = true;
    await new Promise(setImmediate);
    while (this.hungry.length > 0) {
      this.sendAwayTheLate();
      if (this.hungry.length > 0) await this.claim(this.nextTogether());
    }
    this.claiming = false;
  }

  /** The turn of a lane may come late: one that is lost, or due to be given back by now, gets nothing more. */
  private sendAwayTheLate(): void {
    const now = performance.now();
    const late = this.hungry.filter(({ held }) => held.lost || now >= held.untilMs);
    this.hungry = this.hungry.filter((one) => !late.includes(one));
    for (const { resolve } of late) resolve([]);
  }

  /** The first, and those that came after it and want as many. */
  private nextTogether(): Hungry[] {
    const perLane = this.hungry[0]!.held.mostRows;
    const most = Math.max(1, Math.floor(MOST_TOGETHER / perLane));
    const together = this.hungry.filter(({ held }) => held.mostRows === perLane).slice(0, most);
    this.hungry = this.hungry.filter((one) => !together.includes(one));
    return together;
  }

  private async claim(hungry: readonly Hungry[]): Promise<void> {
    const perLane = hungry[0]!.held.mostRows;
    try {
      const rows = await this.queue.lanes.claimTogether(
        hungry.map(({ held }) => held),
        perLane,
      );
      const lanes = byLane(rows);
      for (const { held, resolve } of hungry) resolve(lanes.get(held.lane) ?? []);
    } catch (error) {
      for (const { reject } of hungry) reject(error);
      // To find that out can take half a minute, for each claim anew.
      if (isDatabaseAway(error)) for (const { reject } of this.hungry.splice(0)) reject(error);
    }
  }
}
