import { beforeAll, describe, expect, it } from '@jest/globals';
import { PRODUCE_KEY, type TestApp } from '../support/app.ts';
import { keyIn, twoCells } from '../support/cells.ts';

const APPLIED = 'urn:ekp:events/candidate-applied';
const cells = twoCells({ HISTORY: `${APPLIED}=forever` });
const { home, b } = cells;
let replica: TestApp;

beforeAll(async () => {
  replica = await cells.start();
});

/** `candidate` is the row that it makes: by default that of the key. */
async function post(
  key: string,
  { id, candidate = key, as }: { id?: string; candidate?: string; as?: string } = {},
) {
  const body = { type: APPLIED, key, id, payload: { candidateId: candidate, name: candidate } };
  const posted = await replica.call('POST', '/v1/messages', { body, ...(as ? { key: as } : {}) });
  expect([posted.status, posted.text]).toEqual([202, expect.any(String)]);
  return posted.body.id as string;
}

const get = (path: string, headers?: Record<string, string>) =>
  replica.call('GET', path, headers ? { headers } : {});

describe('a row that is not in the cell of its id', () => {
  it('is found, also by If-None-Match, and is 503 while its cell is away', async () => {
    const candidate = keyIn('home', 60);
    const id = await post(keyIn('b', 60), { candidate });
    const path = `/v1/candidates/${candidate}`;
    const found = await get(`${path}?after=${id}&wait=20s`);
    expect([found.status, found.body.id]).toEqual([200, candidate]);
    expect((await get(path, { 'if-none-match': found.headers.get('etag')! })).status).toBe(304);
    expect((await replica.call('HEAD', path)).status).toBe(200);

    await cells.makeAway(replica);
    expect((await get(path)).body).toMatchObject({ status: 503, type: 'urn:sluice:problems/cell-away' });
    await cells.bringBack(replica);
    expect((await get(path)).status).toBe(200);
    expect((await get(`/v1/candidates/${keyIn('home', 99)}`)).status).toBe(404);
  });
});

describe('one id in two cells', () => {
  it('is waited for as the message of the caller', async () => {
    const held = keyIn('home', 61);
    await replica.call('PUT', `/v1/keys/${held}/hold`, { body: { reason: 'test' } });
    await post(held, { id: 'twice', as: PRODUCE_KEY });
    await post(keyIn('b', 61), { id: 'twice' });
    const listed = await get('/v1/candidates?after=twice&wait=20s&limit=500');
    expect(listed.status).toBe(200);
    expect(listed.body.items.map((one: { id: string }) => one.id)).toContain(keyIn('b', 61));
    await replica.call('DELETE', `/v1/keys/${held}/hold`);
  });

  it('is shown from the cell of its key, whatever its payload says', async () => {
    const key = keyIn('b', 62);
    const payload = { key: keyIn('home', 62) };
    const posted = { type: 'urn:test:other', key, id: 'left-behind', payload };
    expect((await replica.call('POST', '/v1/messages', { body: posted })).status).toBe(202);
    await home.query('ALTER TABLE inbox DISABLE TRIGGER cell_fence');
    await home.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at)
       VALUES ('left-behind', 'urn:sluice:api-keys/admin', 'urn:test:other', $1, 0, $2, 'finished', now())`,
      [key, JSON.stringify({ ...payload, old: true })],
    );
    await home.query('ALTER TABLE inbox ENABLE TRIGGER cell_fence');
    expect((await get('/v1/messages/left-behind/payload')).body).toEqual(payload);
    expect((await get('/v1/messages/left-behind')).body.payload).toEqual(payload);
  });
});

describe('holds', () => {
  it('of all cells are listed each once, page by page', async () => {
    const keys = Array.from({ length: 3 }, (_, nth) => [
      keyIn('home', 70 + nth),
      keyIn('b', 70 + nth),
    ]).flat();
    for (const key of keys.toReversed())
      expect((await replica.call('PUT', `/v1/keys/${key}/hold`, { body: { reason: 'test' } })).status).toBe(
        200,
      );
    const listed: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page = await get(`/v1/holds?limit=2${cursor && `&cursor=${cursor}`}`);
      expect(page.status).toBe(200);
      listed.push(...page.body.items.map(({ key }: { key: string }) => key));
      cursor = page.body.next;
    }
    expect(listed.toSorted()).toEqual(keys.toSorted());
    const elsewhere = await replica.call('DELETE', `/v1/keys/${keyIn('b', 70)}/hold?cell=home`);
    expect([elsewhere.status, elsewhere.body.detail]).toEqual([422, expect.stringContaining('"b"')]);
    for (const key of keys) expect((await replica.call('DELETE', `/v1/keys/${key}/hold`)).status).toBe(204);
  });
});

describe('history', () => {
  const NDJSON = { 'content-type': 'application/x-ndjson' };
  const line = (key: string) => `${JSON.stringify({ id: `old-${key}`, type: APPLIED, key, payload: {} })}\n`;

  it('is exported from, imported to and erased in one cell', async () => {
    expect((await get('/v1/history/messages')).body.detail).toContain('?cell=');
    expect((await get('/v1/history')).body.detail).toContain('?cell=');
    const key = keyIn('b', 80);
    const imported = await replica.call('POST', '/v1/history/import?cell=b', {
      body: line(key),
      headers: NDJSON,
    });
    expect([imported.status, imported.body]).toEqual([200, { imported: 1, duplicates: 0, ofOtherCells: 0 }]);
    expect((await get('/v1/history/messages?cell=b')).text).toContain(`old-${key}`);
    expect((await get('/v1/history/messages?cell=home')).text).not.toContain(`old-${key}`);
    const erased = await replica.call('DELETE', `/v1/history/keys/${key}`);
    expect([erased.status, erased.body]).toMatchObject([200, { erased: 1 }]);
    expect(await b.query('SELECT FROM inbox WHERE key = $1', [key])).toEqual([]);
  });

  it('of all cells is imported to each of them, which leaves out and counts what is not its own', async () => {
    const body = line(keyIn('b', 81)) + line(keyIn('home', 81)) + line(keyIn('home', 82));
    for (const [cell, imported] of [
      ['b', 1],
      ['home', 2],
    ] as const)
      for (const dryRun of ['true', 'false']) {
        const path = `/v1/history/import?cell=${cell}&dryRun=${dryRun}`;
        const reply = await replica.call('POST', path, { body, headers: NDJSON });
        expect([reply.status, reply.body]).toEqual([
          200,
          { imported, duplicates: 0, ofOtherCells: 3 - imported },
        ]);
      }
  });
});
