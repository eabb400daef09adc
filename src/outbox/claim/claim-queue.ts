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
 * Max rows of one claim. A claim takes as long as sending that many rows: if one claim served all lanes, all would wait
 * for it together, send together and be empty together. With several claims in turn, some lanes are always sending.
 */
const MAX_ROWS = 1_024;

/** Held lanes that have sent everything claim more together: requests that arrive during a claim share the next one. */
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
      if (this.requests.length > 0) await this.claim(this.takeBatch());
    }
    this.claiming = false;
  }

  /** A request may wait for a while: a lane that was lost meanwhile, or whose time is up, gets nothing more. */
  private dropExpired(): void {
    const now = performance.now();
    const expired = this.requests.filter(({ held }) => held.lost || now >= held.untilMs);
    this.requests = this.requests.filter((request) => !expired.includes(request));
    for (const { resolve } of expired) resolve([]);
  }

  /** The oldest request, and later ones for the same number of rows. */
  private takeBatch(): ClaimRequest[] {
    const perLane = this.requests[0]!.held.maxRows;
    const maxLanes = Math.max(1, Math.floor(MAX_ROWS / perLane));
    const batch = this.requests.filter(({ held }) => held.maxRows === perLane).slice(0, maxLanes);
    this.requests = this.requests.filter((request) => !batch.includes(request));
    return batch;
  }

  private async claim(batch: readonly ClaimRequest[]): Promise<void> {
    const perLane = batch[0]!.held.maxRows;
    try {
      const rows = await this.queue.lanes.claimForLanes(
        batch.map(({ held }) => held),
        perLane,
      );
      const lanes = byLane(rows);
      for (const { held, resolve } of batch) resolve(lanes.get(held.lane) ?? []);
    } catch (error) {
      for (const { reject } of batch) reject(error);
      // Each further claim could take half a minute to find out the same.
      if (isDatabaseAway(error)) for (const { reject } of this.requests.splice(0)) reject(error);
    }
  }
}
