import type { ClaimedMessage } from '../claimed-message.ts';

/** The result of triage, before any of the claimed messages is applied. */
export interface Triaged {
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
export function triage(claimed: readonly ClaimedMessage[], rules: TriageRules): Triaged {
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
