import { Injectable } from '@nestjs/common';
import type { Lease } from '../../lanes/lease.ts';
import type { ClaimedMessage } from '../claimed-message.ts';
import { Denormalizers } from '../denormalizers/denormalizers.ts';
import { InboxTransaction } from './inbox-transaction.ts';
import { ProcessingMetrics } from './processing-metrics.ts';
import { EXPIRED_REASON, SettleStore, type SlotWanted } from './settle-store.ts';
import { slotName, type Triaged, triage } from './triage-rules.ts';

/** Ends messages that are no longer to be applied, and orders the others. */
@Injectable()
export class Triage {
  constructor(
    private readonly denormalizers: Denormalizers,
    private readonly settle: SettleStore,
    private readonly transaction: InboxTransaction,
    private readonly metrics: ProcessingMetrics,
  ) {}

  /** Ends expired and superseded messages; returns the others in the order they are to be applied. */
  async endExpiredAndSuperseded(
    lease: Lease,
    messages: readonly ClaimedMessage[],
  ): Promise<readonly ClaimedMessage[]> {
    const triaged = await this.triage(messages);
    await this.end(lease, triaged);
    return triaged.ready;
  }

  /** Ends messages that expired since they were claimed; returns the others. */
  async endExpired(lease: Lease, messages: readonly ClaimedMessage[]): Promise<readonly ClaimedMessage[]> {
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
    const ended = [
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
    const messages = ended.map(({ message }) => message);
    const settled = new Set(
      await this.transaction.fenced(lease, messages, (tx, held) =>
        this.settle.end(
          ended.filter(({ message }) => held.includes(message)),
          tx,
        ),
      ),
    );
    this.metrics.endedWith(ended.filter(({ message }) => settled.has(message)));
  }
}
