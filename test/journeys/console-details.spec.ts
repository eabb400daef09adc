import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { SETTINGS } from '../../src/config/settings.schema.ts';
import { ADMIN_KEY, PRODUCE_KEY, READ_KEY } from '../support/app.ts';
import { status } from '../support/receiver.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

const SECRET = Buffer.alloc(32, 7).toString('base64');
let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.open({ SECRETS_KEYS: `k=${SECRET}`, INBOX_WORKERS: '3' });
});
afterAll(() => cluster.close());

const get = (path: string) => cluster.replica.call('GET', path, { key: READ_KEY });
const ids = (items: { id: string }[]) => items.map(({ id }) => id);

describe('the settings', () => {
  it('are listed for admins as they were given, without secrets', async () => {
    const { body, text } = await cluster.call('GET', '/v1/settings');
    const named = Object.fromEntries(body.items.map((item: { name: string }) => [item.name, item]));
    expect(Object.keys(named)).toEqual(Object.keys(SETTINGS));
    expect(named.INBOX_WORKERS).toMatchObject({ value: '3', isSet: true, isSecret: false });
    expect(named.INBOX_WORKERS.default).toMatch(/^\d+$/);
    expect(named.ENVIRONMENT).toEqual({
      name: 'ENVIRONMENT',
      value: null,
      default: null,
      isSet: false,
      isSecret: false,
      description: expect.stringContaining('console'),
    });
    for (const name of ['API_KEYS', 'SECRETS_KEYS'])
      expect(named[name]).toMatchObject({ value: null, isSet: true, isSecret: true });
    for (const secret of [SECRET, ADMIN_KEY]) expect(text).not.toContain(secret);
    expect((await get('/v1/settings')).status).toBe(403);
  });
});

describe('a schedule', () => {
  it('shows its next three ticks, and none while it is paused', async () => {
    const put = await cluster.call('PUT', '/v1/schedules/nightly', {
      cron: '0 3 * * *',
      type: 'night',
      payload: { n: 1.0 },
    });
    const { nextTicks, nextAt } = put.body;
    expect(nextTicks).toHaveLength(3);
    expect(nextTicks[0]).toBe(nextAt);
    const hours = nextTicks.map((tick: string) => new Date(tick).getUTCHours());
    expect(hours).toEqual([3, 3, 3]);
    expect(Date.parse(nextTicks[2]) - Date.parse(nextTicks[0])).toBe(2 * 86_400_000);
    const paused = await cluster.call('POST', '/v1/schedules/nightly/pause');
    expect(paused.body).toMatchObject({ nextAt: null, nextTicks: [] });
  });

  it('posts its message now, also while it is paused, and its ticks stay', async () => {
    const before = (await get('/v1/schedules/nightly')).body;
    const run = await cluster.call('POST', '/v1/schedules/nightly/run');
    expect(run.status).toBe(202);
    const message = await until(async () => {
      const { body } = await get(`/v1/messages/${encodeURIComponent(run.body.id)}`);
      return body.status === 'finished' ? body : undefined;
    });
    expect(message).toMatchObject({ type: 'night', source: 'urn:sluice:schedules', payload: { n: 1 } });
    expect((await get('/v1/schedules/nightly')).body).toEqual(before);
    const again = await cluster.call('POST', '/v1/schedules/nightly/run');
    expect(again.body.id).not.toBe(run.body.id);
    const [entry] = (await get('/v1/audit?action=schedule.run')).body.items;
    expect(entry).toMatchObject({ by: 'admin', target: 'nightly' });
    expect((await cluster.call('POST', '/v1/schedules/none/run')).status).toBe(404);
  });
});

describe('the health of a listener', () => {
  it('is closed and unlimited at first, and has what keeps it from receiving', async () => {
    await cluster.listen('healthy', { rateLimit: { perSecond: 50 } });
    expect((await get('/v1/listeners/healthy')).body.health).toEqual({
      circuit: 'closed',
      closedUntil: null,
      reason: null,
      rate: { perSecond: 50, limitedUntil: null },
    });
    const receiver = await cluster.listen('asks', {}, status(429, { 'retry-after': '60' }));
    await cluster.post({ type: 'asks/x' });
    await until(() => receiver.received.length > 0);
    const asks = await until(async () => {
      const { body } = await get('/v1/listeners/asks');
      return body.health.closedUntil ? body.health : undefined;
    });
    expect(asks).toMatchObject({ circuit: 'closed', rate: { perSecond: null, limitedUntil: null } });
    expect(asks.reason).toMatch(/\S/);
    await cluster.database.query('UPDATE gate SET openings = 1');
    const { items } = (await get('/v1/listeners')).body;
    const circuits = items.map((item: { name: string; health: { circuit: string } }) => [
      item.name,
      item.health.circuit,
    ]);
    expect(circuits).toEqual([
      ['asks', 'open'],
      ['healthy', 'closed'],
    ]);
  });
});

describe('the list of messages', () => {
  it('is filtered by source, time and error, and by several statuses', async () => {
    const [first] = await cluster.post({ type: 'list/x', key: 'l-1' });
    const other = await cluster.replica.call('POST', '/v1/messages', {
      body: { type: 'list/x', key: 'l-2', payload: 1 },
      key: PRODUCE_KEY,
    });
    const list = async (query: string) => ids((await get(`/v1/messages?type=list/x&${query}`)).body.items);
    expect(await list('')).toEqual([other.body.id, first]);
    expect(await list('source=urn:sluice:api-keys/produce')).toEqual([other.body.id]);
    await cluster.database.query(`UPDATE inbox SET received_at = now() - interval '1 hour' WHERE id = $1`, [
      first,
    ]);
    const halfAnHourAgo = new Date(Date.now() - 1_800_000).toISOString();
    expect(await list(`until=${halfAnHourAgo}`)).toEqual([first]);
    expect(await list(`since=${halfAnHourAgo}`)).toEqual([other.body.id]);
    await until(async () => (await list('status=finished')).length === 2);

    await cluster.database.query(
      `UPDATE inbox SET status = 'dead', lapsed_at = now(), error = 'no order 17 of 2026' WHERE id = $1`,
      [first],
    );
    const [{ fingerprint }] = (await get('/v1/dead-letters?type=list/x')).body.items;
    for (const error of [fingerprint, 'no order'])
      expect(await list(`error=${encodeURIComponent(error)}`)).toEqual([first]);
    expect(await list('error=order')).toEqual([]);
    expect(await list('status=dead,finished')).toEqual([other.body.id, first]);
    expect(await list('status=dead,held')).toEqual([first]);
    expect((await get('/v1/messages?status=dead,x')).status).toBe(422);
  });

  it('has every message of several statuses on exactly one page', async () => {
    await cluster.call('PUT', '/v1/keys/p-held/hold', { reason: 'x' });
    const posted = await cluster.post(
      ...Array.from({ length: 30 }, (_, n) => ({ type: 'pages/x', key: n % 3 ? `p-${n}` : 'p-held' })),
    );
    const path = '/v1/messages?type=pages/x&status=held,finished&limit=4';
    await until(async () => {
      const { items } = (await get('/v1/messages?type=pages/x&status=held,finished&limit=100')).body;
      return items.length === 30;
    });
    const seen: string[] = [];
    for (let cursor = ''; ; ) {
      const { items, next } = (await get(`${path}${cursor}`)).body;
      seen.push(...ids(items));
      if (next === null) break;
      cursor = `&cursor=${next}`;
    }
    expect(seen).toEqual(posted.toReversed());
  });
});

describe('the deliveries of a listener', () => {
  it('are filtered by type, time and the last response', async () => {
    const receiver = await cluster.listen('listed', { terminalStatuses: [400] }, status(400));
    const [dead] = await cluster.post({ type: 'listed/a' });
    await cluster.delivery(dead, 'dead');
    receiver.respond = status(500);
    const [failed] = await cluster.post({ type: 'listed/b' });
    await until(async () => (await cluster.deliveries(failed!))[0]?.attempts.length === 1);
    const list = async (query: string) => {
      const { items } = (await get(`/v1/listeners/listed/deliveries?${query}`)).body;
      return items.map(({ message }: { message: string }) => message);
    };
    expect(await list('')).toEqual([failed, dead]);
    expect(await list('type=listed/a')).toEqual([dead]);
    expect(await list('responseStatus=400')).toEqual([dead]);
    expect(await list('responseStatus=500')).toEqual([failed]);
    expect(await list('responseStatus=204')).toEqual([]);
    expect(await list('since=2100-01-01T00:00:00Z')).toEqual([]);
    expect((await get('/v1/listeners/listed/deliveries?responseStatus=x')).status).toBe(422);
  });
});
