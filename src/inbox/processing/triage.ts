import { Injectable } from '@nestjs/common';
import type { Lease } from '../../lanes/lease.ts';
import type { ClaimedMessage } from '../claimed-message.ts';
import { Denormalizers } from '../denormalizers/denormalizers.ts';
import { InboxTransaction } from './inbox-transaction.ts';
import { ProcessingMetrics } from './processing-metrics.ts';
import { EXPIRED_REASON, SettleStore, type SlotWanted } from './settle-store.ts';
import { slotName, type Triaged, triage } from './triage-rules.ts';

/** Keeps back what is not to be applied any more, and ends it. */
@Injectable()
export class Triage {
  constructor(
    private readonly denormalizers: Denormalizers,
    private readonly settle: SettleStore,
    private readonly transaction: InboxTransaction,
    private readonly metrics: ProcessingMetrics,
  ) {}

  /** Ends what is late or superseded; answers with the rest, in the order it is to be handled. */
  async endLateAndSuperseded(
    lease: Lease,
    messages: readonly ClaimedMessage[],
  ): Promise<readonly ClaimedMessage[]> {
    const sifted = await this.triage(messages);
    await this.end(lease, sifted);
    return sifted.ready;
  }

  /** Ends what became late since; answers with the rest. */
  async endLate(lease: Lease, messages: readonly ClaimedMessage[]): Promise<readonly ClaimedMessage[]> {
    const expired = await this.settle.expiredOf(messages);
    if (expired.length === 0) return messages;
    await this.end(lease, { ready: [], expired, superseded: [] });
    return messages.filter((message) => !expired.includes(message));
  }

  private async triage(messages: readonly ClaimedMessage[]): Promise<Triaged> {
    const slots = new Map<string, SlotWanted>();
    for (const { type, key, keyless } of messages) {
      const slot = keyless ? undefined : this.denormalizers.slotOf(type);
      if (slot === undefined || slots.has(slotName(key, slot))) continue;
      slots.set(slotName(key, slot), { key, slot, types: this.denormalizers.typesOfSlot(slot) });
    }
    const last = slots.size ? await this.settle.lastOfSlots([...slots.values()]) : [];
    return triage(messages, {
      slotOf: (type) => this.denormalizers.slotOf(type),
      rankOf: (type) => this.denormalizers.rankOf(type),
      lastOf: new Map(last.map(({ key, slot, position }) => [slotName(key, slot), position])),
    });
  }

  private async end(lease: Lease, { expired, superseded }: Triaged): Promise<void> {
    const lapses = [
      ...expired.map((message) => ({
        message,
        status: 'expired' as const,
        error: EXPIRED_REASON,
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
      await this.transaction.fenced(lease, messages, (tx, mine) =>
        this.settle.end(
          lapses.filter(({ message }) => mine.includes(message)),
          tx,
        ),
      ),
    );
    this.metrics.endedWith(lapses.filter(({ message }) => settled.has(message)));
  }
}
