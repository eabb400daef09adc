import { Injectable } from '@nestjs/common';
import { isDatabaseAway } from '../../database/faults.ts';
import { byLane, type ClaimedDelivery } from './claimed-delivery.ts';
import type { HeldLane } from './held-lane.ts';
import { OutboxQueue } from './outbox-queue.ts';

interface ClaimRequest {
  readonly held: HeldLane;
  resolve(rows: ClaimedDelivery[]): void;
  reject(error: unknown): void;
}

/**
 * One claim takes as long as sending that many: were it for all lanes, all would wait for it together, be sent from
 * together and be empty together. In turns, some are always being sent from.
 */
const MAX_TOGETHER = 1_024;

/** Lanes that have sent what they had ask for more together: while one claim is on its way, the next ones gather. */
@Injectable()
export class ClaimQueue {
  private requests: ClaimRequest[] = [];
  private claiming = false;

  constructor(private readonly queue: OutboxQueue) {}

  next(held: HeldLane): Promise<ClaimedDelivery[]> {
    return new Promise((resolve, reject) => {
      this.requests.push({ held, resolve, reject });
      if (!this.claiming) void this.drain();
    });
  }

  private async drain(): Promise<void> {
    this.claiming = true;
    await new Promise(setImmediate);
    while (this.requests.length > 0) {
      this.dropExpired();
      if (this.requests.length > 0) await this.claim(this.nextTogether());
    }
    this.claiming = false;
  }

  /** The turn of a lane may come late: one that is lost, or due to be given back by now, gets nothing more. */
  private dropExpired(): void {
    const now = performance.now();
    const late = this.requests.filter(({ held }) => held.lost || now >= held.untilMs);
    this.requests = this.requests.filter((one) => !late.includes(one));
    for (const { resolve } of late) resolve([]);
  }

  /** The first, and those that came after it and want as many. */
  private nextTogether(): ClaimRequest[] {
    const perLane = this.requests[0]!.held.maxRows;
    const most = Math.max(1, Math.floor(MAX_TOGETHER / perLane));
    const together = this.requests.filter(({ held }) => held.maxRows === perLane).slice(0, most);
    this.requests = this.requests.filter((one) => !together.includes(one));
    return together;
  }

  private async claim(hungry: readonly ClaimRequest[]): Promise<void> {
    const perLane = hungry[0]!.held.maxRows;
    try {
      const rows = await this.queue.lanes.claimForLanes(
        hungry.map(({ held }) => held),
        perLane,
      );
      const lanes = byLane(rows);
      for (const { held, resolve } of hungry) resolve(lanes.get(held.lane) ?? []);
    } catch (error) {
      for (const { reject } of hungry) reject(error);
      // To find that out can take half a minute, for each claim anew.
      if (isDatabaseAway(error)) for (const { reject } of this.requests.splice(0)) reject(error);
    }
  }
}
