import { beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import { PRODUCE_KEY, type TestApp } from '../support/app.ts';
import { keyIn, twoCells } from '../support/cells.ts';
import { withClient } from '../support/client.ts';
import { oneTableReadModel } from '../support/one-table-read-model.ts';
import { until } from '../support/until.ts';

@Denormalizer({ types: ['test/forward'] })
@Injectable()
class Forwarding {
  async apply({ key, payload }: Message<{ to: string }>, tx: ReadModelTransaction): Promise<void> {
    await tx.query('INSERT INTO applied VALUES ($1)', [key]);
    await tx.send({ type: 'test/forwarded', key: payload.to, payload: {} });
  }
}

const cells = twoCells();
const { home, b } = cells;
const readModels = [oneTableReadModel('applied (key text NOT NULL)', [Forwarding])];
let replica: TestApp;

beforeAll(async () => {
  replica = await cells.start({ INBOX_RETRY_SCHEDULE: '100ms' }, { readModels });
});

const message = (key: string, type = 'test/entry') => ({ type, key, payload: {} });
const post = (body: object, options = {}) => replica.call('POST', '/v1/messages', { body, ...options });

describe('what is defined once', () => {
  it('api keys open every cell, and none when they were deleted', async () => {
    const body = { name: 'everywhere', scopes: ['produce', 'read'] };
    const { body: created } = await replica.call('POST', '/v1/api-keys', { body });
    const asked = async () => {
      const posted = [];
      for (const cell of ['home', 'b'] as const)
        posted.push((await post(message(keyIn(cell)), { key: created.key })).status);
      return [...posted, (await replica.call('GET', '/v1/messages?cell=b', { key: created.key })).status];
    };
    expect(await asked()).toEqual([202, 202, 200]);
    expect((await replica.call('GET', '/v1/messages?cell=b', { key: PRODUCE_KEY })).status).toBe(403);
    await replica.call('DELETE', `/v1/api-keys/${created.id}`);
    await until(async () => (await asked()).every((status) => status === 401));
  });

  it('topics have entries of their own in every cell, which groups poll and commit there', async () => {
    const topic = { partitions: 2, types: ['test/entry'] };
    expect((await replica.call('PUT', '/v1/topics/entries', { body: topic })).status).toBe(201);
    const group = { topics: ['entries'], start: 'latest' };
    expect((await replica.call('PUT', '/v1/groups/readers', { body: group })).status).toBe(201);
    expect((await replica.call('POST', '/v1/groups/readers/members', { body: {} })).status).toBe(422);
    for (const cell of ['home', 'b'] as const) {
      const key = keyIn(cell, 1);
      const joined = await replica.call('POST', `/v1/groups/readers/members?cell=${cell}`, { body: {} });
      expect(joined.status).toBe(201);
      const { member } = joined.body;
      await post(message(key));
      const poll = () =>
        replica.call('POST', `/v1/groups/readers/poll?cell=${cell}`, { body: { member, wait: '1s' } });
      await until(async () => (await poll()).text.includes(`"${key}"`));
    }
  });

  it('groups are copied however their changes overlap', async () => {
    for (const name of ['one', 'two'])
      await replica.call('PUT', `/v1/groups/${name}`, { body: { topics: ['entries'] } });
    const changedLate = async () =>
      (
        await b.query<{ name: string; updated_by: string }>('SELECT name, updated_by FROM consumer_group')
      ).filter(({ updated_by }) => updated_by === 'late');
    await withClient(home.url, async (client) => {
      await client.query('BEGIN');
      await client.query('SELECT now()');
      // Begins later and ends earlier.
      await replica.call('PUT', '/v1/groups/two', { body: { topics: ['entries'], maxInFlight: 7 } });
      await client.query(
        `UPDATE consumer_group SET updated_at = now(), updated_by = 'late' WHERE name = 'one'`,
      );
      await client.query('COMMIT');
    });
    await until(async () => (await changedLate()).length === 1);
  });

  it('schedules post to the cell of their key, each tick once', async () => {
    const body = { cron: '* * * * * *', type: 'test/tick', payload: {} };
    for (const cell of ['home', 'b'] as const)
      await replica.call('PUT', `/v1/schedules/tick-${cell}`, { body: { ...body, key: keyIn(cell, 2) } });
    for (const [cell, database] of [
      ['home', home],
      ['b', b],
    ] as const) {
      const ticks = () => database.query(`SELECT id FROM inbox WHERE starts_with(id, 'tick-')`);
      await until(async () => (await ticks()).length >= 2);
      for (const { id } of await ticks()) expect(id).toContain(`tick-${cell}/`);
      expect((await replica.call('DELETE', `/v1/schedules/tick-${cell}`)).status).toBe(204);
    }
  });
});

describe('tx.send()', () => {
  it('to a key of the same cell is sent; to that of another one its message becomes a dead letter, without effect', async () => {
    const [from, near, far] = [keyIn('b', 3), keyIn('b', 4), keyIn('home', 4)];
    await post({ type: 'test/forward', key: from, payload: { to: near } });
    await until(async () => (await b.query('SELECT FROM inbox WHERE key = $1', [near])).length === 1);
    await post({ type: 'test/forward', key: keyIn('b', 5), payload: { to: far } });
    const dead = async () => (await replica.call('GET', '/v1/dead-letters?cell=b')).body.items;
    const [letter] = await until(async () => ((await dead()).length > 0 ? await dead() : undefined));
    expect(letter).toMatchObject({ key: keyIn('b', 5), error: expect.stringContaining('another cell') });
    expect(await b.query('SELECT key FROM applied')).toEqual([{ key: from }]);
    expect(await home.query('SELECT FROM inbox WHERE key = $1', [far])).toEqual([]);
  });
});

describe('CELL_WORKERS', () => {
  it('accepts for all cells and processes for some', async () => {
    await cells.stop(replica);
    replica = await cells.start({ CELL_WORKERS: 'home' }, { readModels });
    const statusIn = async (database: typeof home, key: string) =>
      (await database.query<{ status: string }>('SELECT status FROM inbox WHERE key = $1', [key]))[0]?.status;
    expect((await post(message(keyIn('b', 6)))).status).toBe(202);
    expect((await post(message(keyIn('home', 6)))).status).toBe(202);
    await until(async () => (await statusIn(home, keyIn('home', 6))) === 'finished');
    expect(await statusIn(b, keyIn('b', 6))).toBe('pending');
    const served = (await replica.call('GET', '/v1/cells')).body.items.map(
      (one: { served: boolean }) => one.served,
    );
    expect(served).toEqual([true, false]);
    const other = await cells.start({ CELL_WORKERS: 'b', ROLES: 'inbox' }, { readModels });
    await until(async () => (await statusIn(b, keyIn('b', 6))) === 'finished');
    await cells.stop(other);
  });
});
