import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { slotOf } from '../../src/cells/slot-of.ts';
import type { TestApp } from '../support/app.ts';
import { keyIn, twoCells } from '../support/cells.ts';
import { scrapeOften } from '../support/metrics.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

const APPLIED = 'urn:ekp:events/candidate-applied';
const cells = twoCells({ EGRESS_ALLOW: '127.0.0.0/8' });
const { home, b } = cells;
let replica: TestApp;
const receivers: Receiver[] = [];

beforeAll(async () => {
  replica = await cells.start();
});
afterEach(async () => {
  for (const receiver of receivers.splice(0)) await receiver.close();
});

function message(key: string, id?: string) {
  return { type: APPLIED, key, id, payload: { candidateId: key, name: key } };
}

async function post(key: string, id?: string): Promise<string> {
  const response = await replica.call('POST', '/v1/messages', { body: message(key, id) });
  expect([response.status, response.text]).toEqual([202, expect.any(String)]);
  return response.body.id;
}

const keysOf = async (database: typeof home) =>
  (await database.query<{ key: string }>('SELECT key FROM inbox ORDER BY position')).map(({ key }) => key);

describe('two cells', () => {
  it('stores and applies each message in the cell of its key, whichever replica accepted it', async () => {
    const [one, other] = [keyIn('home'), keyIn('b')];
    const ids = [await post(one), await post(other)];
    expect(await keysOf(home)).toContain(one);
    expect(await keysOf(b)).toContain(other);
    expect(await keysOf(home)).not.toContain(other);
    for (const [index, key] of [one, other].entries()) {
      const read = await replica.call('GET', `/v1/candidates/${key}?after=${ids[index]}&wait=20s`);
      expect([read.status, read.body.id]).toEqual([200, key]);
      expect(read.headers.get('etag')).toEqual(expect.any(String));
    }
  });

  it('finds a message, and what it waits for, in the cell that has it', async () => {
    for (const cell of ['home', 'b'] as const) {
      const id = await post(keyIn(cell, 1));
      const found = await replica.call('GET', `/v1/messages/${id}`);
      expect([found.status, found.body.key]).toEqual([200, keyIn(cell, 1)]);
      expect((await replica.call('GET', `/v1/messages/${id}/why`)).status).toBe(200);
      expect((await replica.call('GET', `/v1/messages/${id}/payload`)).body.candidateId).toBe(keyIn(cell, 1));
    }
    expect((await replica.call('GET', '/v1/messages/nowhere')).status).toBe(404);
    expect((await replica.call('GET', '/v1/messages/nowhere', { key: null })).status).toBe(401);
  });

  it('recognises a repeated message, and refuses another one with its id, in the cell of the key', async () => {
    const key = keyIn('b', 2);
    await post(key, 'repeated');
    const again = await replica.call('POST', '/v1/messages', { body: message(key, 'repeated') });
    expect([again.status, again.body.duplicate]).toEqual([200, true]);
    const body = { ...message(key, 'repeated'), payload: { candidateId: key, name: 'other' } };
    expect((await replica.call('POST', '/v1/messages', { body })).status).toBe(409);
  });

  it('stores a batch in all cells that it belongs to', async () => {
    const keys = [keyIn('home', 3), keyIn('b', 3), keyIn('home', 4)];
    const body = { messages: keys.map((key, index) => message(key, `batch-${index}`)) };
    const first = await replica.call('POST', '/v1/messages/batch', { body });
    expect([first.status, first.body.messages.map(({ id }: { id: string }) => id)]).toEqual([
      202,
      ['batch-0', 'batch-1', 'batch-2'],
    ]);
    const again = await replica.call('POST', '/v1/messages/batch', { body });
    expect(again.body.messages.map(({ duplicate }: { duplicate: boolean }) => duplicate)).toEqual([
      true,
      true,
      true,
    ]);
  });

  it('refuses a producer sequence, whose numbers no cell sees all of', async () => {
    const refused = await replica.call('POST', '/v1/messages', {
      body: message(keyIn('home')),
      headers: { 'producer-id': 'p', 'producer-sequence': '1' },
    });
    expect([refused.status, refused.body.detail]).toEqual([422, expect.stringContaining('CELLS')]);
  });

  it('holds a key in its cell', async () => {
    const key = keyIn('b', 5);
    const held = await replica.call('PUT', `/v1/keys/${key}/hold`, { body: { reason: 'test' } });
    expect(held.status).toBe(200);
    expect(await b.query('SELECT FROM hold WHERE key = $1', [key])).toHaveLength(1);
    const listed = await replica.call('GET', '/v1/holds');
    expect(listed.body.items.map((hold: { key: string }) => hold.key)).toContain(key);
    expect((await replica.call('DELETE', `/v1/keys/${key}/hold`)).status).toBe(204);
  });

  it('delivers the messages of all cells to a listener that is defined once', async () => {
    const receiver = await startReceiver();
    receivers.push(receiver);
    const body = { mode: 'webhook', types: [APPLIED], url: receiver.url };
    const put = await replica.call('PUT', '/v1/listeners/once', { body });
    expect([put.status, put.headers.get('sluice-cells-behind')]).toEqual([201, null]);
    const keys = [keyIn('home', 6), keyIn('b', 6)];
    for (const key of keys) await post(key);
    await until(() => receiver.received.length === 2);
    expect(receiver.received.map(({ body }) => (body as { key: string }).key).sort()).toEqual(keys.sort());
    expect((await replica.call('DELETE', '/v1/listeners/once')).status).toBe(204);
    await post(keyIn('b', 7));
    expect(receiver.received).toHaveLength(2);
  });
});

describe('lists', () => {
  async function pages(path: string, limit: number): Promise<{ id: string; key?: string; name?: string }[]> {
    const items = [];
    for (let cursor = ''; ; ) {
      const page = await replica.call('GET', `${path}limit=${limit}${cursor}`);
      expect([page.status, page.text]).toEqual([200, expect.any(String)]);
      items.push(...page.body.items);
      if (page.body.next === null) return items;
      cursor = `&cursor=${page.body.next}`;
    }
  }

  it('are merged, each item once, in order', async () => {
    const ids = [];
    for (let nth = 20; nth < 28; nth++)
      for (const cell of ['home', 'b'] as const)
        ids.push(await post(keyIn(cell, nth), `list-${cell}-${nth}`));
    const listed = await pages('/v1/messages?', 3);
    expect(new Set(listed.map(({ id }) => id)).size).toBe(listed.length);
    expect(listed.map(({ id }) => id).filter((id) => id.startsWith('list-'))).toEqual(ids.toReversed());
  });

  it('of a read model are merged by what they are sorted by', async () => {
    const id = await post(keyIn('b', 30));
    await replica.call('GET', `/v1/candidates?after=${id}&wait=20s`);
    const names = (await pages('/v1/candidates?sort=name&', 4)).map(({ name }) => name);
    expect(names).toEqual(names.toSorted());
    expect(names).toEqual(expect.arrayContaining([keyIn('home'), keyIn('b'), keyIn('b', 30)]));
    const tagged = await replica.call('GET', '/v1/candidates?sort=name');
    const etag = tagged.headers.get('etag')!;
    expect(
      (await replica.call('GET', '/v1/candidates?sort=name', { headers: { 'if-none-match': etag } })).status,
    ).toBe(304);
  });

  it('of one cell are read with ?cell=', async () => {
    const { items } = (await replica.call('GET', '/v1/messages?cell=b&limit=500')).body;
    expect(items.map(({ key }: { key: string }) => key)).not.toContain(keyIn('home'));
    expect((await replica.call('GET', '/v1/messages?cell=x')).status).toBe(422);
    expect((await replica.call('POST', '/v1/listeners/none/pull', { body: {} })).body.detail).toContain(
      '?cell=',
    );
  });
});

describe('a cell that is away', () => {
  it('is answered 503 for its keys, shown by /readyz and /v1/cells, and stops no other', async () => {
    await cells.makeAway(replica);
    const refused = await replica.call('POST', '/v1/messages', { body: message(keyIn('b')) });
    expect([refused.status, refused.body.type, refused.headers.get('retry-after')]).toEqual([
      503,
      'urn:sluice:problems/cell-away',
      '1',
    ]);
    await post(keyIn('home', 40));
    const ready = await replica.call('GET', '/readyz');
    expect([ready.status, ready.body.cells]).toEqual([200, { home: 'up', b: 'away' }]);
    const [, away] = (await replica.call('GET', '/v1/cells')).body.items;
    expect(away).toMatchObject({ name: 'b', state: 'away', reason: expect.any(String), slots: 128 });
    expect((await replica.call('GET', `/v1/candidates/${keyIn('b')}`)).status).toBe(503);
    expect((await replica.call('GET', '/v1/messages')).status).toBe(503);
    expect((await replica.call('GET', '/v1/messages?cell=home')).status).toBe(200);
    await cells.bringBack(replica);
    await post(keyIn('b', 40));
  });

  it('gets the definitions that it missed before it takes messages again', async () => {
    await cells.makeAway(replica);
    const receiver = await startReceiver();
    receivers.push(receiver);
    const body = { mode: 'webhook', types: [APPLIED], url: receiver.url };
    const put = await replica.call('PUT', '/v1/listeners/missed', { body });
    expect([put.status, put.headers.get('sluice-cells-behind')]).toEqual([201, 'b']);
    const batch = { messages: [message(keyIn('home', 41), 'm-1'), message(keyIn('b', 41), 'm-2')] };
    const partly = await replica.call('POST', '/v1/messages/batch', { body: batch });
    expect([partly.status, partly.body.errors]).toEqual([
      503,
      [{ pointer: '/messages/1', detail: expect.any(String) }],
    ]);
    await cells.bringBack(replica);
    expect((await replica.call('POST', '/v1/messages/batch', { body: batch })).status).toBe(202);
    // A message of the test before may be processed only now, and then goes to this listener, too.
    const has = (id: string) => receiver.received.some(({ body }) => body.id === id);
    await until(() => has('m-1') && has('m-2'));
    await replica.call('DELETE', '/v1/listeners/missed');
  });
});

describe('wrong settings', () => {
  it('cannot write a message into a cell that does not have its slot', async () => {
    const insert = (key: string) =>
      b.query(
        `INSERT INTO inbox (id, source, type, key, lane, payload) VALUES ('strayed', 's', 't', $1, $2, '1')`,
        [key, slotOf(key)],
      );
    await expect(insert(keyIn('home', 50))).rejects.toMatchObject({ code: 'SC001' });
    await expect(b.query(`SELECT FROM inbox WHERE id = 'strayed'`)).resolves.toEqual([]);
    await insert(keyIn('b', 50));
  });

  it('are refused: a cell is missing from CELLS', async () => {
    await expect(cells.start({ CELLS: `home=${home.url}` })).rejects.toThrow(/CELLS/);
  });

  it('show as refused: a URL that leads to the database of another cell', async () => {
    const mixed = await cells.start({ CELLS: `home=${home.url},b=${home.url}?application_name=b` });
    const [, refused] = (await mixed.call('GET', '/v1/cells')).body.items;
    expect(refused).toMatchObject({
      name: 'b',
      state: 'refused',
      reason: expect.stringContaining('is cell "home"'),
    });
    const posted = await mixed.call('POST', '/v1/messages', { body: message(keyIn('b', 51)) });
    expect([posted.status, posted.body.type]).toEqual([503, 'urn:sluice:problems/cell-away']);
    await cells.stop(mixed);
  });
});

describe('the metrics of all cells', () => {
  it('have the label of their cell, and say which are up', async () => {
    const { text } = await replica.call('GET', '/metrics');
    for (const cell of ['home', 'b']) {
      expect(text).toContain(`sluice_cell_up{cell="${cell}"} 1`);
      expect(text).toContain(`sluice_cell_slots{cell="${cell}"} 128`);
      expect(text).toMatch(new RegExp(`^sluice_backlog\\{cell="${cell}",`, 'm'));
    }
  });

  it('are collected at most once a second, for any number of scrapes', async () => {
    await scrapeOften(replica);
    await until(async () =>
      (await replica.call('GET', '/metrics')).text.includes('sluice_collected{cell="home"} '),
    );
  });
});
