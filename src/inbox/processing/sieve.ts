import { Injectable } from '@nestjs/common';
import type { Tenure } from '../../lanes/tenure.ts';
import { Denormalizers } from '../denormalizers/denormalizers.ts';
import type { ClaimedMessage } from './claimed-message.ts';
import { InboxTransaction } from './inbox-transaction.ts';
import { ProcessingMetrics } from './processing-metrics.ts';
import { SettleStore, type SlotWanted, TOO_LATE } from './settle-store.ts';
import { type Sifted, sift, slotName } from './sift.ts';

/** Keeps back what is not to be applied any more, and ends it. */
@Injectable()
export class Sieve {
  constructor(
    private readonly denormalizers: Denormalizers,
    private readonly settle: SettleStore,
    private readonly transaction: InboxTransaction,
    private readonly metrics: ProcessingMetrics,
  ) {}

  /** Ends what is late or superseded; answers with the rest, in the order it is to be handled. */
  async sifted(tenure: Tenure, messages: readonly ClaimedMessage[]): Promise<readonly ClaimedMessage[]> {
    const sifted = await this.sift(messages);
    await this.lapse(tenure, sifted);
    return sifted.ready;
  }

  /** Ends what became late since; answers with the rest. */
  async inTime(tenure: Tenure, messages: readonly ClaimedMessage[]): Promise<readonly ClaimedMessage[]> {
    const expired = await this.settle.late(messages);
    if (expired.length === 0) return messages;
    await this.lapse(tenure, { ready: [], expired, superseded: [] });
    return messages.filter((message) => !expired.includes(message));
  }

  private async sift(messages: readonly ClaimedMessage[]): Promise<Sifted> {
    const slots = new Map<string, SlotWanted>();
    for (const { type, key, keyless } of messages) {
      const slot = keyless ? undefined : this.denormalizers.slotOf(type);
      if (slot === undefined || slots.has(slotName(key, slot))) continue;
      slots.set(slotName(key, slot), { key, slot, types: this.denormalizers.typesOfSlot(slot) });
    }
    const last = slots.size ? await this.settle.lastOfSlots([...slots.values()]) : [];
    return sift(messages, {
      slotOf: (type) => this.denormalizers.slotOf(type),
      rankOf: (type) => this.denormalizers.rankOf(type),
      lastOf: new Map(last.map(({ key, slot, position }) => [slotName(key, slot), position])),
    });
  }

  private async lapse(tenure: Tenure, { expired, superseded }: Sifted): Promise<void> {
    const lapses = [
      ...expired.map((message) => ({
        message,
        status: 'expired' as const,
        error: TOO_LATE,
        charged: false,
      })),
      ...superseded.map(({ message, by }) => ({
        message,
        status: 'superseded' as const,
        by,
        charged: false,
      })),
    ];
    const messages = lapses.map(({ message }) => message);
    const settled = new Set(
      await this.transaction.fenced(tenure, messages, (tx, mine) =>
        this.settle.lapse(
          lapses.filter(({ message }) => mine.includes(message)),
          tx,
        ),
      ),
    );
    this.metrics.lapsed(lapses.filter(({ message }) => settled.has(message)));
  }
}
