import { beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { HistoryUpkeep } from '../../src/history/history-upkeep.ts';
import { laneOf } from '../../src/lanes/lane-of.ts';
import { READ_KEY } from '../support/app.ts';
import { jsonText } from '../support/json-texts.ts';
import { openSession } from '../support/session.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const { database, replica } = sharedReplica({
  ROLES: 'api,upkeep',
  HISTORY: 'urn:kept/*=forever,urn:year/*=365d,urn:sluice:*=forever',
});

beforeEach(() => database.query('TRUNCATE inbox, archive_block, archive_id, history_gap'));

const send = (body: string, query = '') =>
  replica.call('POST', `/v1/history/import${query}`, {
    body,
    headers: { 'content-type': 'application/x-ndjson' },
  });
const line = (id: string, more: Record<string, unknown> = {}) =>
  JSON.stringify({ id, source: 'urn:s', type: 'urn:kept/a', key: 'k', payload: { n: 1 }, ...more });
const lines = async (query = '') => {
  const { text } = await replica.call('GET', `/v1/history/messages${query}`);
  return text.split('\n').slice(0, -1);
};
const ids = async (query = '') => (await lines(query)).map((one) => JSON.parse(one).id);
const status = async () => (await replica.call('GET', '/v1/history', { key: READ_KEY })).body;
const inbox = () => database.query('SELECT 1 FROM inbox');

describe('import', () => {
  it('brings lines into history, in their order, without processing them, and recognises them again', async () => {
    const body = ['b', 'a', 'c'].map((id) => line(id, { receivedAt: '2020-02-03T04:05:06.789Z' })).join('\n');
    expect((await send(body)).body).toEqual({ imported: 3, duplicates: 0 });
    expect(await inbox()).toEqual([]);
    expect(await ids()).toEqual(['b', 'a', 'c']);
    expect((await replica.call('GET', '/v1/messages/a')).body).toMatchObject({
      ...{ archived: true, source: 'urn:s', receivedAt: '2020-02-03T04:05:06.789Z', payload: { n: 1 } },
    });
    expect((await send(`${body}\n${line('d')}\r\n\n`)).body).toEqual({ imported: 1, duplicates: 3 });
    expect((await status()).messages).toBe(4);
  });

  it('of an export gives the same export, byte for byte', async () => {
    const message = fc.record({
      // A post with such a member is refused, so no message has one.
      payload: jsonText.filter((text) => !/constructor|prototype/.test(text)),
      key: fc.constantFrom('k-1', 'k-2', 'é😀'),
      occurredAt: fc.option(fc.constantFrom('2026-01-31T12:00:00.123456Z'), { nil: undefined }),
      headers: fc.option(fc.constantFrom({ a: 'b', z: 'ü' }), { nil: undefined }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(message, { minLength: 1, maxLength: 12 }), async (messages) => {
        await database.query('TRUNCATE archive_block, archive_id');
        const given = messages.map(({ payload, ...rest }, n) => {
          const other = line(`m-${n}`, {
            ...rest,
            payload: undefined,
            receivedAt: '2026-01-01T00:00:00.000Z',
          });
          return `${other.slice(0, -1)},"payloadText":${JSON.stringify(payload)}}`;
        });
        expect((await send(given.join('\n'))).body).toEqual({ imported: messages.length, duplicates: 0 });
        const exported = await lines();
        for (const [n, { payload }] of messages.entries()) {
          const own = exported.find((one) => JSON.parse(one).id === `m-${n}`)!;
          expect(/[\n\r]/.test(payload) ? JSON.parse(own).payloadText : own).toContain(payload);
        }
        await database.query('TRUNCATE archive_block, archive_id');
        await send(exported.join('\n'));
        const withoutPlace = (one: string) => one.replace(/"position":\d+/, '');
        expect((await lines()).map(withoutPlace)).toEqual(exported.map(withoutPlace));
      }),
      { numRuns: 25 },
    );
  });

  it.each([
    ['{"id":"x"', '', 'Line 2: '],
    [line('x', { payload: undefined }), '/payload', 'Line 2: /payload is required. Nothing was imported.'],
    [line('x', { type: 'urn:other' }), '/type', '"urn:other" is not kept in history; add it to HISTORY'],
    [
      line('x', { type: 'urn:year/a', receivedAt: '2020-01-01T00:00:00Z' }),
      '/receivedAt',
      'is older than HISTORY keeps',
    ],
    [line('x', { extra: 1 }), '/extra', 'is not a known field'],
    [line('x', { dueAt: '2030-01-01T00:00:00Z' }), '/dueAt', 'is not imported'],
    [line('x', { key: 'k'.repeat(300) }), '/key', 'must not be longer than 256 bytes'],
    ['{"id":"x","type":"urn:kept/a","payload":1e999}', '/payload', ''],
    ['{"id":"x","type":"urn:kept/a","payloadText":"[1"}', '/payloadText', ''],
    [
      '{"id":"x","type":"urn:kept/a","payload":1,"payloadText":"1"}',
      '/payloadText',
      'must not be given with',
    ],
    ['[]', '', 'must be an object'],
  ])('with a bad line names the line, and imports nothing: %s', async (bad, pointer, detail) => {
    const { status: code, body } = await send([line('good'), bad, line('later')].join('\n'), '?firstLine=1');
    expect([code, body.errors[0].pointer]).toEqual([422, `/2${pointer}`]);
    expect(body.detail).toContain(detail);
    expect((await send(bad, '?firstLine=1001')).body.errors[0].pointer).toBe(`/1001${pointer}`);
    expect([await ids(), await inbox()]).toEqual([[], []]);
  });

  it('takes 2,000 lines at most, without blank ones', async () => {
    const some = (count: number) => Array.from({ length: count }, (_, n) => line(`m-${n}`)).join('\n\n\r\n');
    expect((await send(some(2_000))).body).toEqual({ imported: 2_000, duplicates: 0 });
    const more = await send(some(2_001));
    expect([more.status, more.body.detail]).toEqual([
      422,
      'A request may have 2000 lines; send the others in another one.',
    ]);
    const { body } = await send(`\n\r\n${line('x')}\n\n[]`, '?firstLine=11');
    expect(body.errors.map(({ pointer }: { pointer: string }) => pointer)).toEqual(['/15']);
  });

  it('refuses a line that is another message than the stored one, and imports nothing', async () => {
    await send(line('a'));
    const other = await send([line('b'), line('a', { payload: 2 })].join('\n'));
    expect([other.status, other.body.errors]).toEqual([
      409,
      [{ pointer: '/2/id', detail: '"a" is taken by a stored message with other content' }],
    ]);
    const twice = await send([line('c'), line('c', { key: 'x' })].join('\n'));
    expect([twice.status, twice.body.errors[0].detail]).toEqual([
      409,
      '"c" is taken by an earlier line with other content',
    ]);
    expect(await ids()).toEqual(['a']);
    expect((await send(line('b'), '?dryRun=true')).body).toEqual({ imported: 1, duplicates: 0 });
    expect((await send(line('a', { payload: 2 }), '?dryRun=true')).status).toBe(409);
    expect(await ids()).toEqual(['a']);
  });

  it('is not processed again when it is posted, and a message in the inbox is not imported', async () => {
    const own = (more: object) =>
      JSON.stringify({ id: 'p', type: 'urn:kept/a', key: 'k', payload: 1, ...more });
    await send(own({}));
    expect((await replica.call('POST', '/v1/messages', { body: own({}) })).body).toMatchObject({
      duplicate: true,
    });
    await replica.call('POST', '/v1/messages', { body: own({ id: 'q' }) });
    expect((await send(own({ id: 'q' }))).body).toEqual({ imported: 0, duplicates: 1 });
  });

  it('is for admins, of lines only', async () => {
    expect((await replica.call('POST', '/v1/history/import', { body: {} })).status).toBe(415);
    expect((await replica.call('POST', '/v1/history/import', { key: READ_KEY })).status).toBe(403);
    expect((await send(`${'\n'.repeat(3)}`)).body).toEqual({ imported: 0, duplicates: 0 });
    expect((await send(Array.from({ length: 2_001 }, (_, n) => line(`m-${n}`)).join('\n'))).status).toBe(422);
    expect((await send(line('a'), '?firstLine=0')).status).toBe(422);
  });
});

describe('export', () => {
  it('has every message once, page by page, and continues behind a line', async () => {
    const some = Array.from({ length: 50 }, (_, n) => line(`m-${n}`, { key: `k-${n % 20}` }));
    await send(some.join('\n'));
    const all: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page = await replica.call('GET', `/v1/history/messages?limit=7${cursor && `&cursor=${cursor}`}`);
      all.push(...page.text.split('\n').slice(0, -1));
      cursor = page.headers.get('next-cursor');
    }
    const exported = all.map((one) => JSON.parse(one));
    expect(exported.map(({ id }) => id).sort()).toEqual(some.map((one) => JSON.parse(one).id).sort());
    for (const key of ['k-0', 'k-7'])
      expect(exported.filter((one) => one.key === key).map(({ id }) => Number(id.slice(2)) % 20)).toEqual(
        Array(exported.filter((one) => one.key === key).length).fill(Number(key.slice(2))),
      );
    const { lane, applied, position } = exported[20];
    const rest = await lines(`?cursor=${Math.floor(lane / 16)}-${applied}-${position}`);
    expect(rest).toEqual(all.slice(21));
    expect(await ids('?types=urn:year/*')).toEqual([]);
    for (const bad of ['?cursor=x', '?cursor=17-0-0', '?limit=0', '?limit=10001', '?typ=x'])
      expect((await replica.call('GET', `/v1/history/messages${bad}`)).status).toBe(422);
  });

  it('misses no message whose transaction took its number first and commits last', async () => {
    await database.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, status)
       SELECT 'm-' || lane, 's', 'urn:kept/a', 'k', lane, '1', 'pending' FROM generate_series(0, 1) AS lane`,
    );
    // As a batch of live messages: it locks its lane, and then takes its number.
    const finish = (lane: number) =>
      `SELECT FROM lane WHERE queue = 'inbox' AND lane = ${lane} FOR NO KEY UPDATE;
       UPDATE inbox SET status = 'finished', settled_at = now(), applied = nextval('inbox_applied_seq') WHERE lane = ${lane}`;
    const slow = await openSession(database);
    await slow.query(`BEGIN; ${finish(0)}`);
    await database.query(finish(1));
    let arrived: string[] | undefined;
    const exported = ids().then((found) => {
      arrived = found;
      return found;
    });
    const isWaiting = () =>
      database.query(`SELECT FROM pg_stat_activity WHERE query LIKE '%virtualtransaction = ANY%' AND pid <> pg_backend_pid()
        AND datname = current_database()`);
    await until(async () => arrived ?? (await isWaiting()).length > 0);
    await slow.query('COMMIT');
    await slow.close();
    expect(await exported).toEqual(['m-0', 'm-1']);
  });

  it('has what was applied when it began, also if it is read in pages', async () => {
    await send([line('a'), line('b')].join('\n'));
    const first = await replica.call('GET', '/v1/history/messages?limit=1');
    await database.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, status, applied, settled_at)
       VALUES ('later', 's', 'urn:kept/a', 'k', 255, '1', 'finished', nextval('inbox_applied_seq'), now())`,
    );
    expect(await ids(`?cursor=${first.headers.get('next-cursor')}`)).toEqual(['b']);
    expect(await ids()).toEqual(['a', 'b', 'later']);
  });
});

describe('the upkeep of history', () => {
  const upkeep = () => replica.app.nest.get(HistoryUpkeep).run();
  const blocks = async () => (await status()).blocks;

  it('merges small blocks', async () => {
    for (let n = 0; n < 9; n++) await send(line(`m-${n}`));
    expect(await blocks()).toBe(9);
    await upkeep();
    expect(await blocks()).toBe(1);
    expect(await ids()).toEqual(Array.from({ length: 9 }, (_, n) => `m-${n}`));
    expect((await replica.call('GET', '/v1/messages/m-3')).body.archived).toBe(true);
    expect((await send(line('m-3'))).body.duplicates).toBe(1);
  });

  it('removes blocks that were kept for long enough, with their ids, and says from when history is complete', async () => {
    await send([line('new'), line('old', { type: 'urn:year/a' })].join('\n'));
    await database.query(`UPDATE archive_block SET to_at = now() - interval '366 days'`);
    await upkeep();
    expect(await ids()).toEqual(['new']);
    expect(await database.query('SELECT 1 FROM archive_id')).toHaveLength(1);
    const { types } = await status();
    expect(types).toEqual([
      { pattern: 'urn:kept/*', kept: 'forever', completeFrom: null },
      { pattern: 'urn:year/*', kept: '365d', completeFrom: expect.any(String) },
      { pattern: 'urn:sluice:*', kept: 'forever', completeFrom: null },
    ]);
  });

  it('creates partitions ahead of time, and drops old ones that are empty', async () => {
    const partitions = async () =>
      (
        await database.query(
          `SELECT relname FROM pg_class WHERE relname ~ '^archive_block_[0-9_]+$' AND relkind = 'r' ORDER BY 1`,
        )
      ).map(({ relname }) => relname);
    const before = await partitions();
    await database.query(`DROP TABLE ${before[1]}`);
    await database.query(`SELECT archive_partition('2024-05-06Z'), archive_partition('2024-06-06Z')`);
    await send(line('old'));
    await database.query(`UPDATE archive_block SET written_at = '2024-06-07Z'`);
    await upkeep();
    expect(await partitions()).toEqual(['archive_block_2024_06', ...before]);
    expect(await ids()).toEqual(['old']);
  });
});

describe('erasing a key', () => {
  it('removes its messages and their ids, and nothing else, and is recorded', async () => {
    const other = Array.from({ length: 500 }, (_, n) => `o-${n}`).find(
      (key) => laneOf(key, 256) === laneOf('k', 256),
    )!;
    await send([line('a'), line('b', { key: other }), line('c')].join('\n'));
    await send(line('d', { key: other }));
    await replica.call('POST', '/v1/messages', {
      body: { id: 'i', type: 'urn:kept/a', key: 'k', payload: 1 },
    });
    const { body } = await replica.call('DELETE', '/v1/history/keys/k?reason=asked');
    expect(body).toEqual({ erased: 2, inInbox: 1 });
    expect(await ids()).toEqual(['b', 'd']);
    expect(await database.query('SELECT 1 FROM archive_id')).toHaveLength(2);
    expect((await replica.call('GET', '/v1/messages/a')).status).toBe(404);
    expect((await replica.call('GET', '/v1/audit?action=history.erase')).body.items).toEqual([
      expect.objectContaining({ by: 'admin', target: 'k', count: 2, reason: 'asked' }),
    ]);
    expect((await replica.call('DELETE', '/v1/history/keys/k')).body.erased).toBe(0);
    expect((await replica.call('DELETE', '/v1/history/keys/k', { key: READ_KEY })).status).toBe(403);
  });
});
