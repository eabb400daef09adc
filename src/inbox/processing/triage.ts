import { Injectable } from '@nestjs/common';
import type { Lease } from '../../lanes/lease.ts';
import { Denormalizers } from '../denormalizers/denormalizers.ts';
import type { ClaimedMessage } from '../inbox-queue.ts';
import { InboxTransaction } from './inbox-transaction.ts';
import { ProcessingMetrics } from './processing-metrics.ts';
import { EXPIRED_REASON, SettleStore, type SlotQuery } from './settle-store.ts';

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

  private async triage(messages: readonly ClaimedMessage[]): Promise<TriageResult> {
    const slots = new Map<string, SlotQuery>();
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

  private async end(lease: Lease, { expired, superseded }: TriageResult): Promise<void> {
    const ended = [
      ...expired.map((message) => ({
        message,
        status: 'expired' as const,
        error: EXPIRED_REASON,
        counted: false,
      })),
      ...superseded.map(({ message, by }) => ({
        message,
        status: 'superseded' as const,
        by,
        counted: false,
      })),
    ];
    const messages = ended.map(({ message }) => message);
    const settled = new Set(
      await this.transaction.settleOnly(lease, messages, (tx, remaining) =>
        this.settle.end(
          ended.filter(({ message }) => remaining.includes(message)),
          tx,
        ),
      ),
    );
    this.metrics.endedWith(ended.filter(({ message }) => settled.has(message)));
  }
}

/** The result of triage, before any of the claimed messages is applied. */
export interface TriageResult {
  /** To be applied; the messages of one key in the order they are to be applied. */
  readonly ready: readonly ClaimedMessage[];
  readonly expired: readonly ClaimedMessage[];
  readonly superseded: readonly { readonly message: ClaimedMessage; readonly by: number }[];
}

export interface TriageRules {
  slotOf(type: string): string | undefined;
  rankOf(type: string): number;
  /** The position of the last waiting message of a key and slot that does not expire, whether it was claimed or not. */
  readonly lastOf: ReadonlyMap<string, number>;
}

export function slotName(key: string, slot: string): string {
  return `${slot}\u0000${key}`;
}

/** Pure: which messages have expired, which are superseded, and in which order the others are applied. */
export function triage(claimed: readonly ClaimedMessage[], rules: TriageRules): TriageResult {
  const expired = claimed.filter((message) => message.expired);
  const alive = claimed.filter((message) => !message.expired);
  const rivals = rivalsPerSlot(alive, rules);
  const superseded: { message: ClaimedMessage; by: number }[] = [];
  const ready: ClaimedMessage[] = [];
  for (const message of alive) {
    const slot = slotOf(message, rules);
    const ofSlot = slot === undefined ? [] : rivals.get(slotName(message.key, slot))!;
    const winner = ofSlot.find((rival) => rival.position > message.position && outlives(rival, message));
    if (winner) superseded.push({ message, by: winner.position });
    else ready.push(message);
  }
  return { ready: ranked(ready, rules), expired, superseded };
}

/** A message without a key has no rivals. */
function slotOf({ type, keyless }: ClaimedMessage, rules: TriageRules): string | undefined {
  return keyless ? undefined : rules.slotOf(type);
}

type Rival = Pick<ClaimedMessage, 'position' | 'expires_at'>;

/** The rivals of each slot, the last one first. */
function rivalsPerSlot(alive: readonly ClaimedMessage[], rules: TriageRules): Map<string, Rival[]> {
  const rivals = new Map<string, Rival[]>();
  for (const [name, position] of rules.lastOf) rivals.set(name, [{ position, expires_at: null }]);
  for (const message of alive) {
    const slot = slotOf(message, rules);
    if (slot === undefined) continue;
    const name = slotName(message.key, slot);
    const ofSlot = rivals.get(name);
    if (ofSlot) ofSlot.push(message);
    else rivals.set(name, [message]);
  }
  for (const ofSlot of rivals.values()) ofSlot.sort((a, b) => b.position - a.position);
  return rivals;
}

/** Otherwise the rival may expire before it is applied, and neither of the two would be applied. */
function outlives(rival: Rival, message: ClaimedMessage): boolean {
  if (rival.expires_at === null) return true;
  return message.expires_at !== null && rival.expires_at >= message.expires_at;
}

/** Stable: equal ranks stay in the order accepted. */
function ranked(messages: readonly ClaimedMessage[], rules: TriageRules): ClaimedMessage[] {
  return messages.toSorted((a, b) => rules.rankOf(a.type) - rules.rankOf(b.type) || a.position - b.position);
}
