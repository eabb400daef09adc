import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { groupBy } from '../../database/group-by.ts';
import type { ClaimedMessage } from '../inbox-queue.ts';
import { slotName, type TriageRules, triage } from './triage.ts';

/** The campaigns of the source document: edits first, then create, start or stop, archive. */
const RANKS: Record<string, number> = { edit: 0, banner: 0, create: 1, start: 2, stop: 2, archive: 3 };
const SLOTS: Record<string, string> = { edit: 'edit', banner: 'banner', start: 'run', stop: 'run' };
const TYPES = [...Object.keys(RANKS), 'note'];

const rules = (lastOf: ReadonlyMap<string, number> = new Map()): TriageRules => ({
  slotOf: (type) => SLOTS[type],
  rankOf: (type) => RANKS[type] ?? 0,
  lastOf,
});

/** `expiresIn`: seconds; negative: already expired. */
function message(position: number, key: string, type: string, expiresIn?: number): ClaimedMessage {
  const expires_at = expiresIn === undefined ? null : new Date(expiresIn * 1_000);
  const expired = expiresIn !== undefined && expiresIn < 0;
  return { position, key, type, expires_at, expired, id: `m-${position}` } as ClaimedMessage;
}

/** Ascending by position, as they are claimed. */
const claimed = fc
  .array(
    fc.tuple(
      fc.constantFrom('a', 'b', 'c'),
      fc.constantFrom(...TYPES),
      fc.constantFrom(undefined, undefined, undefined, -1, 10, 20),
    ),
    { maxLength: 30 },
  )
  .map((list) => list.map(([key, type, expiresIn], index) => message(index + 1, key, type, expiresIn)));

/** Later messages that are pending but not claimed. */
const beyond = fc
  .dictionary(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('edit', 'banner', 'run'))
  .map(
    (slots) =>
      new Map(Object.entries(slots).map(([key, slot], index) => [slotName(key, slot), 1_000 + index])),
  );

const positions = (messages: readonly ClaimedMessage[]) => messages.map(({ position }) => position);

describe('triage', () => {
  it('ends every message in exactly one way', () => {
    fc.assert(
      fc.property(claimed, beyond, (messages, lastOf) => {
        const { ready, expired, superseded } = triage(messages, rules(lastOf));
        const all = [...ready, ...expired, ...superseded.map((one) => one.message)];
        expect(positions(all).sort((a, b) => a - b)).toEqual(positions(messages));
        expect(expired).toEqual(messages.filter((one) => one.expired));
      }),
    );
  });

  it('C2 never lets a message without a key supersede another, or be superseded', () => {
    const keyless = (position: number) => ({ ...message(position, 'a', 'edit'), keyless: true });
    const messages = [message(1, 'a', 'edit'), keyless(2), message(3, 'a', 'edit'), keyless(4)];
    const { ready, superseded } = triage(messages, rules(new Map([[slotName('a', 'edit'), 3]])));
    expect(positions(ready)).toEqual([2, 3, 4]);
    expect(superseded.map(({ message: { position }, by }) => [position, by])).toEqual([[1, 3]]);
  });

  it('C2 keeps the last message per key and slot that does not expire, and none that expires earlier', () => {
    fc.assert(
      fc.property(claimed, beyond, (messages, lastOf) => {
        const { ready, superseded } = triage(messages, rules(lastOf));
        const slotOf = ({ key, type }: ClaimedMessage) => slotName(key, SLOTS[type]!);
        const inSlot = ready.filter(({ type }) => SLOTS[type]);
        for (const ofSlot of groupBy(inSlot, slotOf)) {
          const ends = ofSlot
            .toSorted((a, b) => a.position - b.position)
            .map(({ expires_at }) => expires_at?.getTime() ?? Number.POSITIVE_INFINITY);
          expect(ends).toEqual([...new Set(ends)].sort((a, b) => b - a));
        }
        for (const { message: dropped, by } of superseded) {
          expect(by).toBeGreaterThan(dropped.position);
          const winner = inSlot.find(({ position }) => position === by);
          if (!winner) expect(lastOf.get(slotOf(dropped))).toBe(by);
          else if (winner.expires_at)
            expect(winner.expires_at.getTime()).toBeGreaterThanOrEqual(dropped.expires_at!.getTime());
        }
      }),
    );
  });

  it('C3 orders the messages of a key by rank, then by position', () => {
    fc.assert(
      fc.property(claimed, (messages) => {
        for (const ofKey of groupBy(triage(messages, rules()).ready, ({ key }) => key)) {
          const sorted = ofKey.toSorted(
            (a, b) => (RANKS[a.type] ?? 0) - (RANKS[b.type] ?? 0) || a.position - b.position,
          );
          expect(positions(ofKey)).toEqual(positions(sorted));
        }
      }),
    );
  });

  it('changes nothing if nothing is coalesced, ranked or expired', () => {
    fc.assert(
      fc.property(claimed, (messages) => {
        const alive = messages.map((one) => ({ ...one, expired: false }));
        const plain = { slotOf: () => undefined, rankOf: () => 0, lastOf: new Map() };
        expect(triage(alive, plain)).toEqual({ ready: alive, expired: [], superseded: [] });
      }),
    );
  });

  it('C2 lets the last of start and stop win over both', () => {
    const { ready, superseded } = triage(
      [message(1, 'a', 'start'), message(2, 'a', 'stop'), message(3, 'b', 'stop'), message(4, 'a', 'start')],
      rules(),
    );
    expect(positions(ready)).toEqual([3, 4]);
    expect(superseded.map(({ message: one, by }) => [one.position, by])).toEqual([
      [1, 4],
      [2, 4],
    ]);
  });

  it('never lets an expired message supersede one that is not expired', () => {
    const { ready, expired, superseded } = triage(
      [message(1, 'a', 'edit', 30), message(2, 'a', 'edit', -1)],
      rules(),
    );
    expect([positions(ready), positions(expired), superseded]).toEqual([[1], [2], []]);
  });

  it.each<[string, number | undefined, number | undefined, number[]]>([
    ['one that expires supersedes none that does not', undefined, 30, [1, 2]],
    ['nor one that expires later', 60, 30, [1, 2]],
    ['but one that expires sooner', 30, 60, [2]],
    ['and one that does not expire supersedes all', 30, undefined, [2]],
  ])('C2 %s', (_rule, first, second, left) => {
    const { ready } = triage([message(1, 'a', 'edit', first), message(2, 'a', 'edit', second)], rules());
    expect(positions(ready)).toEqual(left);
  });

  it('distinguishes similar keys', () => {
    const { superseded } = triage(
      [message(1, 'a b', 'edit'), message(2, 'b', 'edit'), message(3, 'edit', 'edit')],
      rules(),
    );
    expect(superseded).toEqual([]);
  });
});
