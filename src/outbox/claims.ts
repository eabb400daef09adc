import { Injectable } from '@nestjs/common';
import { byLane, type ClaimedDelivery } from './claimed-delivery.ts';
import type { HeldLane } from './held-lane.ts';
import { OutboxQueue } from './outbox-queue.ts';

interface Hungry {
  readonly held: HeldLane;
  resolve(rows: ClaimedDelivery[]): void;
  reject(error: unknown): void;
}

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
      const all = this.hungry;
      this.hungry = [];
      const sizes = new Set(all.map(({ held }) => held.mostRows));
      await Promise.all(
        [...sizes].map((size) =>
          this.claim(
            all.filter(({ held }) => held.mostRows === size),
            size,
          ),
        ),
      );
    }
    this.claiming = false;
  }

  private async claim(hungry: readonly Hungry[], perLane: number): Promise<void> {
    try {
      const rows = await this.queue.lanes.claimTogether(
        hungry.map(({ held }) => held),
        perLane,
      );
      const lanes = byLane(rows);
      for (const { held, resolve } of hungry) resolve(lanes.get(held.lane) ?? []);
    } catch (error) {
      for (const { reject } of hungry) reject(error);
    }
  }
}
