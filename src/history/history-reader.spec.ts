import { beforeEach, describe, expect, it } from '@jest/globals';
import { sharedReplica } from '../../test/support/shared-replica.ts';
import { Database } from '../database/database.ts';
import { Archive } from './archive.ts';
import { comparePlaces, type HistoryMessage, type Place, START } from './history-message.ts';
import { HistoryReader, type HistoryScope } from './history-reader.ts';

const { database, replica } = sharedReplica({ ROLES: 'api' });

beforeEach(() => database.query('TRUNCATE inbox, archive_block, archive_id, history_gap'));

/** Finished messages `from` to `to`; by default the order of application is the reverse of the positions. */
const insert = (
  from: number,
  to: number,
  { lane = 'n % 16', applied = '10000 - n', type = 't', payload = '1' } = {},
) =>
  database.query(
    `INSERT INTO inbox (position, id, source, type, key, lane, payload, status, applied, settled_at)
     SELECT n, 'm-' || n, 's', $3, 'k', ${lane}, $4, 'finished', ${applied}, now() FROM generate_series($1::int, $2::int) AS n`,
    [from, to, type, payload],
  );
const move = (...positions: number[]) => {
  const { nest } = replica.app;
  return nest.get(Database).transaction((tx) => nest.get(Archive).move(positions, tx));
};
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);

async function readAll(scope: HistoryScope, limit: number, between: () => Promise<unknown> = async () => {}) {
  const reader = replica.app.nest.get(HistoryReader).open(scope);
  const all: HistoryMessage[] = [];
  for (let after: Place = START; ; ) {
    const messages = await reader.read(after, limit);
    expect(messages.length).toBeLessThanOrEqual(limit);
    if (messages.length === 0) return all;
    all.push(...messages);
    after = messages.at(-1)!;
    await between();
  }
}
const positionsOf = (messages: readonly HistoryMessage[]) => messages.map(({ position }) => position);

describe('reading history', () => {
  it.each([1, 7, 1_000])(
    'is in the order of application, over blocks that overlap and the inbox (%i at a time)',
    async (limit) => {
      await insert(1, 60);
      await move(...range(1, 20).filter((n) => n % 2 === 0));
      await move(...range(1, 20).filter((n) => n % 2 === 1), 60);
      await move(...range(30, 40));
      const all = await readAll({ group: 0 }, limit);
      expect(positionsOf(all)).toEqual(range(1, 60).reverse());
      expect(all.every((message, index) => index === 0 || comparePlaces(all[index - 1]!, message) < 0)).toBe(
        true,
      );
      expect(all[0]).toEqual({
        ...{
          position: 60,
          applied: 9_940,
          lane: 12,
          id: 'm-60',
          source: 's',
          type: 't',
          key: 'k',
          payload: '1',
        },
        ...{ headers: null, occurredAt: null, receivedMs: expect.any(Number) },
      });
    },
  );

  it('returns each message once, whatever is moved meanwhile', async () => {
    await insert(1, 100, { applied: 'n' });
    let next = 1;
    const moveSome = () => {
      next += 15;
      return move(...range(next - 15, next - 1));
    };
    const all = await readAll({ group: 0 }, 9, moveSome);
    expect(positionsOf(all)).toEqual(range(1, 100));
  });

  it('has only the lane and the types that are asked for, and no other lane group', async () => {
    await insert(1, 32, { lane: 'n', applied: 'NULL' });
    await insert(33, 40, { lane: '3', type: 'urn:u', applied: 'NULL' });
    await move(...range(1, 38));
    expect(positionsOf(await readAll({ group: 0 }, 5))).toEqual([...range(1, 15), ...range(33, 40)]);
    expect(positionsOf(await readAll({ group: 1 }, 5))).toEqual(range(16, 31));
    expect(positionsOf(await readAll({ group: 0, lane: 3 }, 5))).toEqual([3, ...range(33, 40)]);
    expect(positionsOf(await readAll({ group: 0, types: ['urn:*'] }, 5))).toEqual(range(33, 40));
    expect(await readAll({ group: 0, types: ['none'] }, 5)).toEqual([]);
  });

  it('finds the few wanted messages behind many blocks without them', async () => {
    await insert(1, 150, { lane: '0', applied: 'n' });
    await insert(151, 152, { lane: '1', applied: 'n' });
    for (const position of range(1, 152)) await move(position);
    expect(positionsOf(await readAll({ group: 0, lane: 1 }, 1))).toEqual([151, 152]);
  });

  it('returns large payloads in parts', async () => {
    await insert(1, 6, { payload: `"${'x'.repeat(3 * 1024 * 1024)}"`, applied: 'n' });
    await move(2, 4, 5);
    const reader = replica.app.nest.get(HistoryReader).open({ group: 0 });
    expect((await reader.read(START, 100)).length).toBeLessThan(4);
    expect(positionsOf(await readAll({ group: 0 }, 100))).toEqual(range(1, 6));
  });

  it('leaves out messages that had no effect', async () => {
    await insert(1, 2);
    await database.query(`UPDATE inbox SET status = 'dead', lapsed_at = now() WHERE position = 1`);
    expect(positionsOf(await readAll({ group: 0 }, 10))).toEqual([2]);
  });
});

describe('the time from which history is complete', () => {
  it('is that of the last message of the types that was removed without being archived', async () => {
    const reader = replica.app.nest.get(HistoryReader);
    expect(await reader.completeFrom()).toBeUndefined();
    await database.query(`INSERT INTO history_gap VALUES ('urn:a', '2026-01-01Z'), ('urn:b', '2026-02-01Z')`);
    expect(await reader.completeFrom(['urn:a'])).toEqual(new Date('2026-01-01Z'));
    expect(await reader.completeFrom(['urn:*'])).toEqual(new Date('2026-02-01Z'));
    expect(await reader.completeFrom(['urn:c'])).toBeUndefined();
    expect(await reader.completeFrom()).toEqual(new Date('2026-02-01Z'));
    await database.query(`INSERT INTO history_gap VALUES ('*', '2026-03-01Z')`);
    expect(await reader.completeFrom(['urn:c'])).toEqual(new Date('2026-03-01Z'));
  });
});
