import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ObservationStore } from '../../src/upkeep/observation/observation-store.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { metricsOf, metricsText } from '../support/metrics.ts';
import { status } from '../support/receiver.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

const INTERVAL = { METRICS_INTERVAL: '100ms' };

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.open({ ...INTERVAL, ROLES: 'api,upkeep' });
});
afterAll(() => cluster.close());

describe('the backlog', () => {
  it('A6 is measured by stage, listener and status, with the age of the oldest', async () => {
    await cluster.listen('slow', {}, status(500));
    await cluster.call('PUT', '/v1/keys/on-hold/hold', { reason: 'a look' });
    await cluster.post(
      { type: 'slow/a', key: 'ready' },
      { type: 'slow/a', key: 'ready' },
      { type: 'slow/a', key: 'on-hold' },
    );
    await cluster.call('POST', '/v1/messages', {
      type: 'slow/a',
      payload: 1,
      dueAt: new Date(Date.now() + 3_600_000).toISOString(),
    });
    await cluster.database.query(
      `UPDATE inbox SET received_at = now() - interval '100 seconds' WHERE key = 'ready'`,
    );
    const seen = await metricsOnce(
      (metric) => metric('backlog_oldest_age_seconds{stage="inbox",status="ready"}') >= 100,
    );
    expect(seen('backlog{stage="inbox",status="ready"}')).toBe(3);
    expect(seen('backlog{stage="inbox",status="scheduled"}')).toBe(1);
    expect(seen('backlog_oldest_age_seconds{stage="inbox",status="scheduled"}')).toBe(0);
    expect(seen('holds{stage="inbox",reason="operator"}')).toBe(1);

    const worker = await cluster.start({ ROLES: 'inbox,outbox' });
    const held = await metricsOnce(
      (metric) =>
        metric('backlog{stage="outbox",listener="slow",status="held"}') === 2 &&
        metric('backlog{stage="inbox",status="ready"}') === 0,
    );
    expect(held('backlog{stage="inbox",status="held"}')).toBe(1);
    expect(held('holds{stage="outbox",reason="retry"}')).toBe(1);
    expect(held('backlog_oldest_age_seconds{stage="outbox",listener="slow",status="held"}')).toBeGreaterThan(
      0,
    );
    expect(held('backlog_oldest_age_seconds{stage="outbox",listener="slow",status="ready"}')).toBe(0);
    await cluster.stop(worker);
  });

  it('E10 includes dead letters, throttled attempts and circuits by listener', async () => {
    const worker = await cluster.start({ ROLES: 'inbox,outbox' });
    await cluster.listen('refusing', { terminalStatuses: [400] }, status(400));
    await cluster.listen('busy', {}, status(429, { 'retry-after': '60' }));
    await cluster.listen('down', {}, status(500));
    await cluster.post(
      { type: 'refusing/a' },
      { type: 'busy/a' },
      ...Array.from({ length: 20 }, () => ({ type: 'down/a' })),
    );
    const seen = await metricsOnce(
      (metric) =>
        metric('dead_letters{stage="outbox",listener="refusing"}') === 1 &&
        metric('listener_paused{listener="busy"}') === 1 &&
        metric('circuit_open{listener="down"}') === 1,
    );
    expect(seen('circuit_open{listener="busy"}')).toBe(0);
    expect(seen('dead_letters{stage="inbox"}')).toBe(0);
    const of = await metricsOf(worker);
    expect(of('deliveries_throttled_total{listener="busy"}')).toBe(1);
    expect(of('deliveries_attempted_total{listener="refusing",outcome="dead"}')).toBe(1);
    // The circuit opens while other attempts of its listener are still in flight.
    await until(async () => (await metricsOf(worker))('deliveries_in_flight') === 0);
    expect(of('database_connections{pool="engine",state="idle"}')).toBeGreaterThan(0);
    await cluster.stop(worker);
  });

  it('separates deliveries of a paused or deleted listener from those that wait for a replica', async () => {
    await cluster.listen('paused');
    await cluster.call('POST', '/v1/listeners/paused/pause');
    const worker = await cluster.start({ ROLES: 'inbox,outbox' });
    await cluster.post({ type: 'paused/a', key: 'k' });
    const backlog = (metric: (name: string) => number) =>
      ['ready', 'held', 'closed', 'deleted'].map((status) =>
        metric(`backlog{stage="outbox",listener="paused",status="${status}"}`),
      );
    await metricsOnce((metric) => backlog(metric).join() === '0,0,1,0');
    await cluster.call('DELETE', '/v1/listeners/paused');
    await metricsOnce((metric) => backlog(metric).join() === '0,0,0,1');
    await cluster.stop(worker);
  });

  it('separates deliveries that wait for a rate limit from those that wait for a replica', async () => {
    const receiver = await cluster.listen('limited', { rateLimit: { perSecond: 0.01, burst: 1 } });
    const worker = await cluster.start({ ROLES: 'inbox,outbox' });
    await cluster.post({ type: 'limited/a', key: 'a' }, { type: 'limited/a', key: 'b' });
    const backlog = (metric: (name: string) => number) =>
      ['ready', 'limited'].map((status) =>
        metric(`backlog{stage="outbox",listener="limited",status="${status}"}`),
      );
    await until(() => receiver.received.length === 1);
    await metricsOnce((metric) => backlog(metric).join() === '0,1');
    await cluster.stop(worker);
  });

  it('has nothing ready for a listener whose circuit is open, also when a probe is due', async () => {
    await cluster.listen('probed');
    // A worker without the outbox: no replica takes the probe.
    const worker = await cluster.start({ ROLES: 'inbox' });
    await cluster.post({ type: 'probed/a', key: 'k' });
    const backlog = (metric: (name: string) => number) =>
      ['ready', 'closed'].map((status) =>
        metric(`backlog{stage="outbox",listener="probed",status="${status}"}`),
      );
    await metricsOnce((metric) => backlog(metric).join() === '1,0');
    await cluster.database.query(
      `INSERT INTO gate (listener, closed_until, reason, openings) VALUES ($1, now() - interval '1 second', 'down', 1)`,
      [await cluster.numberOf('probed')],
    );
    await metricsOnce((metric) => backlog(metric).join() === '0,1');
    await cluster.stop(worker);
  });

  it('A9 includes messages that expire soon, whether they are ready or held', async () => {
    const inMinutes = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString();
    for (const expiresAt of [inMinutes(1), inMinutes(4), inMinutes(60)])
      await cluster.call('POST', '/v1/messages', { type: 't', payload: 1, expiresAt });
    await cluster.database.query(
      `UPDATE inbox SET received_at = now() - interval '1 minute' WHERE expires_at IS NOT NULL`,
    );
    // A message that has just arrived does not count.
    await cluster.call('POST', '/v1/messages', { type: 't', payload: 1, expiresAt: inMinutes(1) });
    await metricsOnce((metric) => metric('messages_expiring_soon') === 2);
    await cluster.database.query('DELETE FROM inbox WHERE expires_at IS NOT NULL');
  });

  it('B9 shows what is processing for too long: as the oldest, and as taken over when its lease has expired', async () => {
    const [id] = await cluster.post({ type: 'stuck/a', key: 'stuck' });
    const lease = (ends: string) =>
      cluster.database.query(
        `UPDATE lane SET leased_until = now() + $1::interval, token = gen_random_uuid(), replica = 'gone'
         WHERE queue = 'inbox' AND lane = (SELECT lane FROM inbox WHERE key = 'stuck')`,
        [ends],
      );
    await lease('1 hour');
    await cluster.database.query(
      `UPDATE inbox SET status = 'processing', attempt = 1, received_at = now() - interval '1 hour' WHERE key = 'stuck'`,
    );
    await metricsOnce(
      (metric) => metric('backlog_oldest_age_seconds{stage="inbox",status="ready"}') >= 3_600,
    );
    const why = (await cluster.call('GET', `/v1/messages/${id}/why`)).body;
    expect(JSON.stringify(why.waitsFor)).toContain('gone');

    const worker = await cluster.start({ ROLES: 'inbox' });
    await lease('-1 second');
    await until(async () => (await cluster.call('GET', `/v1/messages/${id}`)).body.status === 'finished');
    expect((await metricsOf(worker))('taken_over_total{stage="inbox"}')).toBe(1);
    await cluster.stop(worker);
  });

  it('shows inconsistent rows', async () => {
    const before = await metricsOnce(() => true);
    expect(before('inconsistent_rows{stage="inbox",mark="marked"}')).toBe(0);
    // Only the first row of a lane is read.
    await cluster.database.query('DELETE FROM inbox WHERE lane = 7 AND settled_at IS NULL');
    await cluster.database.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, status, waits, attempt)
       VALUES ('stray-1', 's', 't', 'stray-1', 7, '1', 'processing', NULL, 1),
              ('stray-2', 's', 't', 'stray-2', 7, '1', 'held', 'held', 1)`,
    );
    await metricsOnce(
      (metric) =>
        metric('inconsistent_rows{stage="inbox",mark="marked"}') === 1 &&
        metric('inconsistent_rows{stage="inbox",mark="held"}') === 1,
    );
    await cluster.database.query(`DELETE FROM inbox WHERE source = 's'`);
  });

  it('is exposed by replicas with the role upkeep only', async () => {
    const other = await cluster.start({ ROLES: 'api' });
    const { text } = await other.call('GET', '/metrics');
    expect(text).not.toMatch(/^sluice_(backlog|messages_expiring_soon|holds)/m);
    await cluster.stop(other);
  });

  it('is no longer exposed when it could not be read for a while', async () => {
    const proxy = await startTcpProxy(cluster.database.url);
    const replica = await startApp({ ...cluster.database, url: proxy.url }, { ...INTERVAL, ROLES: 'upkeep' });
    const shown = async () => (await replica.call('GET', '/metrics')).text.includes('sluice_backlog{');
    await until(shown);
    await proxy.close();
    await until(async () => !(await shown()));
    await replica.close();
  });
});

describe('reading the backlog', () => {
  let big: TestCluster;

  beforeAll(async () => {
    big = await TestCluster.open({ ROLES: 'api' });
  });
  afterAll(() => big.close());

  it('reads no table, and no more of an index than it counts, however large it is', async () => {
    await big.listen('big');
    const number = await big.numberOf('big');
    await big.database.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, status, waits, settled_at, expires_at)
       SELECT n::text, 's', 't', n::text, n % 256, '1', s.status, s.waits, s.settled_at, now() + interval '1 minute'
       FROM generate_series(1, 90000) AS n
       JOIN (VALUES (0, 'pending', NULL, NULL), (1, 'held', 'held', NULL), (2, 'finished', NULL, now()))
         AS s(rest, status, waits, settled_at) ON n % 3 = s.rest`,
    );
    await big.database.query(
      `INSERT INTO outbox (listener, lane, message, key, sequence, status, waits)
       SELECT $1, $1::int * 256 + n % 16, n, n::text, 1, s.status, s.waits
       FROM generate_series(1, 60000) AS n
       JOIN (VALUES (0, 'pending', NULL), (1, 'held', 'held')) AS s(rest, status, waits) ON n % 2 = s.rest`,
      [number],
    );
    await big.database.query(
      `INSERT INTO hold (queue, key, lane, until, reason)
       SELECT 'inbox', n::text, n % 256, 'infinity', 'operator' FROM generate_series(1, 60000) AS n`,
    );
    const atFirst = await reads(big);
    const seen = await observed(big.replica);
    expect(seen('backlog', 'outbox', 'ready')).toBe(20_000);
    expect(seen('backlog', 'inbox', 'held')).toBeGreaterThanOrEqual(20_000);
    await big.database.query('ANALYZE inbox');
    expect(Math.abs((await observed(big.replica))('backlog', 'inbox', 'held')! - 30_000)).toBeLessThan(1_000);

    // One read counts 20,000 of them; the statistics of both reads appear a moment later.
    const readBefore = (await until(async () => {
      const now = await reads(big);
      return now.outbox_held!.entries - atFirst.outbox_held!.entries > 35_000 ? now : undefined;
    }))!;
    await observed(big.replica);
    const grown = (await until(async () => {
      const now = await reads(big);
      return now.outbox_held!.entries > readBefore.outbox_held!.entries ? now : undefined;
    }))!;
    for (const table of ['inbox', 'outbox', 'hold'])
      expect([table, grown[table]!.scans - readBefore[table]!.scans]).toEqual([table, 0]);
    expect(grown.inbox_ready!.entries - readBefore.inbox_ready!.entries).toBeLessThan(21_000);
    expect(grown.outbox_held!.entries - readBefore.outbox_held!.entries).toBeLessThan(30_000);
  });
});

/** The metrics of the first replica, once they match. */
async function metricsOnce(wanted: (metric: (name: string) => number) => boolean) {
  let last = '';
  const read = async () => {
    last = await metricsText(cluster.replica);
    const metric = await metricsOf(cluster.replica);
    return wanted(metric) ? metric : undefined;
  };
  return until(read).catch((error) => {
    const lines = last
      .split('\n')
      .filter((line) => /^sluice_(back|hold|dead|circ|list|mess|astr)/.test(line));
    throw new Error(`${error.message}\n${lines.join('\n')}`);
  }) as Promise<(name: string) => number>;
}

async function observed(replica: TestApp) {
  const rows = await replica.app.nest.get(ObservationStore, { strict: false }).observe();
  return (name: string, stageName: string, kind: string) =>
    rows.find((row) => row.name === name && row.stage === stageName && row.kind === kind)?.value;
}

/** The number of sequential scans of each table, and of entries read of each index, so far. */
async function reads(of: TestCluster): Promise<Record<string, { scans: number; entries: number }>> {
  await of.database.query('SELECT pg_stat_force_next_flush()').catch(() => undefined);
  const rows = await of.database.query<{ name: string; scans: string; entries: string }>(
    `SELECT relname AS name, seq_scan AS scans, 0 AS entries FROM pg_stat_user_tables
     UNION ALL SELECT indexrelname, 0, idx_tup_read FROM pg_stat_user_indexes`,
  );
  return Object.fromEntries(
    rows.map(({ name, scans, entries }) => [name, { scans: Number(scans), entries: Number(entries) }]),
  );
}
