import type { ClaimedMessage } from './claimed-message.ts';

/** What can be said of claimed messages before any of them is applied. */
export interface Sifted {
  /** To be applied, messages of one key in the order they are to be handled. */
  readonly ready: readonly ClaimedMessage[];
  readonly expired: readonly ClaimedMessage[];
  readonly superseded: readonly { readonly message: ClaimedMessage; readonly by: number }[];
}

export interface Siftings {
  slotOf(type: string): string | undefined;
  rankOf(type: string): number;
  /** The last waiting message of a key and slot, where it is beyond what was claimed. */
  readonly lastOf: ReadonlyMap<string, number>;
}

export function slotName(key: string, slot: string): string {
  return `${slot}\u0000${key}`;
}

/** Pure: who is late, who is superseded, and in which order the rest is handled. */
export function sift(claimed: readonly ClaimedMessage[], rules: Siftings): Sifted {
  const expired = claimed.filter((message) => message.expired);
  const alive = claimed.filter((message) => !message.expired);
  const last = lastPerSlot(alive, expired, rules);
  const superseded: { message: ClaimedMessage; by: number }[] = [];
  const ready: ClaimedMessage[] = [];
  for (const message of alive) {
    const slot = rules.slotOf(message.type);
    const winner = slot === undefined ? message.position : last.get(slotName(message.key, slot))!;
    if (winner === message.position) ready.push(message);
    else superseded.push({ message, by: winner });
  }
  return { ready: ranked(ready, rules), expired, superseded };
}

/** One that is too late wins over nobody. */
function lastPerSlot(
  alive: readonly ClaimedMessage[],
  expired: readonly ClaimedMessage[],
  rules: Siftings,
): Map<string, number> {
  const late = new Set(expired.map(({ position }) => position));
  const last = new Map([...rules.lastOf].filter(([, position]) => !late.has(position)));
  for (const { type, key, position } of alive) {
    const slot = rules.slotOf(type);
    if (slot === undefined) continue;
    const name = slotName(key, slot);
    last.set(name, Math.max(last.get(name) ?? 0, position));
  }
  return last;
}

/** Stable: equal ranks stay in the order accepted. */
function ranked(messages: readonly ClaimedMessage[], rules: Siftings): ClaimedMessage[] {
  return messages.toSorted((a, b) => rules.rankOf(a.type) - rules.rankOf(b.type) || a.position - b.position);
}
