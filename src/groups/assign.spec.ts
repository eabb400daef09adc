import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type Assignment, assign } from './assign.ts';
import { afterDeath, afterLeave, type Cursor, isIdle } from './cursor.ts';

const FREE: Cursor = {
  topic: 1,
  partition: 0,
  start: 0,
  bound: null,
  committed: -1,
  handed: -1,
  owner: null,
  former_owner: null,
  draining: false,
  fence: 0,
  deaths: 0,
  retry_to: -1,
};

function partitions(count: number, more: (partition: number) => Partial<Cursor> = () => ({})): Cursor[] {
  return Array.from({ length: count }, (_, partition) => ({ ...FREE, partition, ...more(partition) }));
}

/** What the database would hold after the assignments. */
function applied(cursors: readonly Cursor[], assignments: readonly Assignment[]): Cursor[] {
  return cursors.map((cursor) => {
    const change = assignments.find((one) => one.cursor === cursor);
    if (!change) return cursor;
    const { owner, draining } = change;
    return { ...cursor, owner, draining, former_owner: cursor.owner ?? cursor.former_owner };
  });
}

function countsOf(members: readonly string[], cursors: readonly Cursor[]): number[] {
  return members.map(
    (member) => cursors.filter(({ owner, draining }) => owner === member && !draining).length,
  );
}

describe('partitions are assigned', () => {
  it('evenly, to members in the order in which they joined', () => {
    const all = partitions(5);
    const cursors = applied(all, assign(['a', 'b'], all, 'drain'));
    expect(countsOf(['a', 'b'], cursors)).toEqual([3, 2]);
  });

  it('to nobody when there is nobody', () => {
    const cursors = partitions(2, () => ({ owner: 'gone' }));
    expect(assign([], cursors, 'drain').map(({ owner }) => owner)).toEqual([null, null]);
  });

  it('to their former owner first', () => {
    const cursors = partitions(4, (n) => ({ former_owner: n < 2 ? 'b' : 'a' }));
    const owners = assign(['a', 'b'], cursors, 'drain').map(({ owner }) => owner);
    expect(owners).toEqual(['b', 'b', 'a', 'a']);
  });

  it('again to an owner that no longer has to give one up', () => {
    const cursors = partitions(2, (n) => ({ owner: 'a', handed: 5, draining: n === 1 }));
    expect(assign(['a'], cursors, 'drain')).toMatchObject([{ owner: 'a', draining: false }]);
  });

  it('with what is in flight left to the former owner, when it is to be skipped', () => {
    const cursors = partitions(2, () => ({ owner: 'a', handed: 5 }));
    expect(assign(['a', 'b'], cursors, 'skip')).toMatchObject([{ owner: 'b', split: true }]);
  });

  it('with the remainder of a former owner that died', () => {
    const [whole, rest] = [
      { ...FREE, start: 6, committed: 5, handed: 5, owner: 'b' },
      { ...FREE, bound: 5, handed: 5, owner: 'a', draining: true },
    ];
    expect(assign(['b'], [rest, whole], 'skip')).toMatchObject([
      { cursor: rest, owner: 'b', draining: false },
    ]);
  });

  it('evenly in the end whoever joins and leaves, without taking from anybody what is in flight', () => {
    const step = fc.record({
      members: fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd', 'e'), { minLength: 1 }),
      busy: fc.nat(255),
    });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20 }),
        fc.array(step, { minLength: 1, maxLength: 8 }),
        (count, steps) => {
          let cursors = partitions(count);
          for (const { members, busy } of steps) {
            cursors = cursors.map((cursor) => {
              const gone = cursor.owner !== null && !(members as string[]).includes(cursor.owner);
              const handed = cursor.committed + ((busy >> (cursor.partition % 8)) & 1);
              return gone
                ? afterLeave(cursor)
                : { ...cursor, handed: cursor.owner ? handed : cursor.committed };
            });
            const assignments = assign(members, cursors, 'drain');
            for (const { cursor, owner } of assignments)
              if (!isIdle(cursor) && cursor.owner !== null) expect(owner).toBe(cursor.owner);
            cursors = applied(cursors, assignments);
            // Everybody commits what drains.
            const drained = cursors.map((cursor) => ({ ...cursor, committed: cursor.handed }));
            cursors = applied(drained, assign(members, drained, 'drain'));
            const counts = countsOf(members, cursors);
            expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
            expect(cursors.every(({ owner, draining }) => owner !== null && !draining)).toBe(true);
            expect(assign(members, cursors, 'drain')).toEqual([]);
          }
        },
      ),
    );
  });

  it('so that a join moves no more partitions than the new member gets', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 32 }), fc.integer({ min: 1, max: 6 }), (count, size) => {
        const members = Array.from({ length: size }, (_, n) => `m${n}`);
        const all = partitions(count);
        const before = applied(all, assign(members, all, 'drain'));
        const changes = assign([...members, 'new'], before, 'drain');
        expect(changes.every(({ owner }) => owner === 'new')).toBe(true);
        expect(changes.length).toBe(Math.floor(count / (size + 1)));
      }),
    );
  });
});

describe('a member that dies', () => {
  const dying: Cursor = { ...FREE, owner: 'a', committed: 4, handed: 9 };

  it('leaves what it had to be handed out again', () => {
    expect(afterDeath(dying, 5)).toEqual({
      exhausted: false,
      cursor: { ...dying, owner: null, former_owner: 'a', handed: 4, deaths: 1, retry_to: 9 },
    });
  });

  it('is not counted when it had nothing', () => {
    expect(afterDeath({ ...dying, handed: 4 }, 1)).toMatchObject({ exhausted: false, cursor: { deaths: 0 } });
  });

  it('with a single message for the last time takes that message with it', () => {
    const alone = { ...dying, handed: 5, retry_to: 9, deaths: 4 };
    expect(afterDeath(alone, 5)).toMatchObject({
      exhausted: true,
      cursor: { committed: 5, handed: 5, deaths: 2, retry_to: 9 },
    });
    expect(afterDeath({ ...alone, retry_to: 5 }, 5).cursor.deaths).toBe(0);
  });

  it('with several messages takes none of them with it, whatever the attempts', () => {
    expect(afterDeath({ ...dying, deaths: 9 }, 1).exhausted).toBe(false);
  });
});
