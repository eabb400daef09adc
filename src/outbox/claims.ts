import { Injectable } from '@nestjs/common';
import { byLane, type ClaimedDelivery } from './claimed-delivery.ts';
import type { HeldLane } from './held-lane.ts';
import { OutboxQueue } from './outbox-queue.ts';

interface Hungry {
  readonly held: HeldLane;
  readonly most: number;
  readonly inHand: number;
  resolve(rows: ClaimedDelivery[]): void;
  reject(error: unknown): void;
}

/** Lanes that have sent what they had ask for more together: while one claim is on its way, the next ones gather. */
@Injectable()
export class Claims {
  private hungry: Hungry[] = [];
  private claiming = false;

  constructor(private readonly queue: OutboxQueue) {}

  /** Those behind the last position in hand: they are claimed while what is in hand is sent. */
  next(held: HeldLane, most: number, inHand: number): Promise<ClaimedDelivery[]> {
    return new Promise((resolve, reject) => {
      this.hungry.push({ held, most, inHand, resolve, reject });
      if (!this.claiming) void this.feed();
    });
  }

  private async feed(): Promise<void> {
    this.claiming = true;
    await new Promise(setImmediate);
    while (this.hungry.length > 0) {
      const all = this.hungry;
      this.hungry = [];
      const sizes = new Set(all.map(({ most }) => most));
      await Promise.all(
        [...sizes].map((size) =>
          this.claim(
            all.filter(({ most }) => most === size),
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
        hungry.map(({ held: { lane, token }, inHand }) => ({ lane, token, inHand })),
        perLane,
      );
      const lanes = byLane(rows);
      for (const { held, resolve } of hungry) resolve(lanes.get(held.lane) ?? []);
    } catch (error) {
      for (const { reject } of hungry) reject(error);
    }
  }
}
