import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ListenerHealth } from '../../src/outbox/health/listener-health.ts';
import { ObservationStore } from '../../src/upkeep/observation/observation-store.ts';
import { Retention } from '../../src/upkeep/retention/retention.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { TestConsumer } from '../support/consumer.ts';
import { metricsOf } from '../support/metrics.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { TestQueue } from '../support/test-queue.ts';
import { until } from '../support/until.ts';

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.open({ RETENTION_WAITING: '60d' }, 2);
});
afterEach(() => cluster.clear());
afterAll(() => cluster.close());

const queue = (name: string, definition?: Record<string, unknown>) =>
  TestQueue.open(cluster, name, definition);
const why = async (id: string) => (await cluster.call('GET', `/v1/messages/${id}/why`)).body.deliveries;

describe('an operator sees of a queue', () => {
  it('which messages consumers have, and what the others wait for', async () => {
    const seen = await queue('seen');
    const [a, behind, free] = await seen.post('a', 'a', 'b');
    const [message] = await seen.consumer.pull({ max: 1 });
    expect(message!.id).toBe(a);
    expect((await cluster.deliveries(a!))[0]).toMatchObject({
      status: 'processing',
      attempt: 1,
      attempts: [],
    });
    expect(await why(a!)).toEqual([expect.objectContaining({ waitsFor: 'consumer', status: 'processing' })]);
    expect(await why(behind!)).toEqual([expect.objectContaining({ waitsFor: 'key', status: 'pending' })]);
    expect(await why(free!)).toEqual([
      expect.objectContaining({ waitsFor: 'consumer', explanation: expect.stringContaining('/seen/pull') }),
    ]);
    await seen.consumer.settle({ retry: [{ lease: message!.lease, after: '1h' }] });
    expect(await why(a!)).toEqual([expect.objectContaining({ waitsFor: 'hold', status: 'held' })]);
  });

  it('its deliveries by status', async () => {
    const listed = await queue('listed');
    const ids = await listed.post('a', 'b', 'c');
    const [first, second] = await listed.consumer.pull({ max: 2 });
    await listed.consumer.acknowledge(first!);
    const list = async (status: string) => {
      const { body } = await listed.call('GET', `/deliveries?status=${status}`);
      return body.items.map(({ message, attempt }: { message: string; attempt: number }) => [
        message,
        attempt,
      ]);
    };
    expect(await list('finished')).toEqual([[first!.id, 1]]);
    expect(await list('processing')).toEqual([[second!.id, 1]]);
    expect(await list('pending')).toEqual([[ids[2], 0]]);
  });

  it('its backlog and how many messages are in flight', async () => {
    const counted = await queue('counted');
    await counted.post('a', 'b', 'c');
    await counted.consumer.pull({ max: 2 });
    const observed = await cluster.replica.app.nest.get(ObservationStore).observe();
    const own = observed.filter(({ listener }) => listener === 'counted');
    expect(own.find(({ name }) => name === 'pull_in_flight')).toMatchObject({ value: 2 });
    expect(observed.filter(({ name }) => name === 'inconsistent_rows').map(({ value }) => value)).toEqual([
      0, 0, 0, 0,
    ]);
    const backlog = async () =>
      (await cluster.call('GET', '/v1/backlog')).body.listeners.find(
        ({ name }: { name: string }) => name === 'counted',
      );
    await until(async () => (await backlog())?.inFlight === 2);
    expect(await backlog()).toMatchObject({ ready: 3, held: 0, deadLetters: 0 });
  });

  it('what became of its leases, in metrics', async () => {
    const metered = await queue('metered', { lease: '1s', retrySchedule: ['1h'] });
    await metered.post('a', 'b', 'c', 'd');
    const [a, b, c, d] = await metered.consumer.pull();
    await metered.consumer.settle({
      acknowledge: [a!.lease],
      retry: [{ lease: b!.lease }],
      reject: [{ lease: c!.lease, reason: 'no' }],
    });
    await until(async () => (await metered.inFlight()) === 0);
    expect(await metered.consumer.acknowledge(d!)).toEqual(['fenced']);
    const total = async (name: string) => {
      const all = await Promise.all(cluster.replicas.map(metricsOf));
      return all.reduce((sum, metric) => sum + metric(name), 0);
    };
    expect(await total('pull_handed_out_total{listener="metered"}')).toBe(4);
    for (const outcome of ['acknowledged', 'retried', 'rejected', 'expired'])
      expect(await total(`pull_leases_total{listener="metered",outcome="${outcome}"}`)).toBe(1);
    expect(await total('pull_fenced_total{listener="metered"}')).toBe(1);
    expect(await total('pull_lease_seconds_count{listener="metered"}')).toBe(1);
  });
});

describe('an operator', () => {
  it('replays a queue: each key in order, behind nothing that is in flight', async () => {
    const again = await queue('again');
    const ids = await again.post('a', 'a', 'b');
    for (const _ of [1, 2]) await again.consumer.acknowledge(...(await again.consumer.pull()));
    const [live] = await again.post('a');
    const [inFlight] = await again.consumer.pull();
    expect(inFlight!.id).toBe(live);
    const started = await again.call('POST', '/replay', { since: '2020-01-01T00:00:00Z' });
    expect(started.body.matched).toBe(3);
    const reopened = async () => (await cluster.counts('again')).held === 3;
    await until(reopened);
    const seen: string[] = [];
    const take = async () => {
      const messages = await again.consumer.pull({ wait: '20s' });
      seen.push(...messages.map(({ id }) => id));
      await again.consumer.acknowledge(...messages);
    };
    await take();
    expect(seen).toEqual([ids[2]]);
    await again.consumer.acknowledge(inFlight!);
    await take();
    await take();
    expect(seen).toEqual([ids[2], ids[0], ids[1]]);
    await until(async () => (await cluster.call('GET', started.body.location)).body.status === 'finished');
  });

  it('gives up nothing that a consumer has, however long it waited', async () => {
    const old = await queue('old');
    await old.post('a', 'b');
    const [message] = await old.consumer.pull({ max: 1 });
    await cluster.database.query(`UPDATE outbox SET created_at = now() - interval '61 days'`);
    await cluster.replica.app.nest.get(Retention).sweep();
    expect(await cluster.counts('old')).toEqual({ pending: 1, dead: 1 });
    expect(await old.consumer.acknowledge(message!)).toEqual(['done']);
  });

  it('is not told that a queue was disabled: it makes no calls that could fail for days', async () => {
    const quiet = await queue('quiet');
    await quiet.post(...Array.from({ length: 10 }, (_, n) => `k-${n}`));
    const messages = await quiet.consumer.pull();
    const reject = messages.map(({ lease }) => ({ lease, reason: 'no' }));
    await quiet.consumer.settle({ reject });
    await cluster.database.query(
      `UPDATE listener SET state_since = now() - interval '6 days' WHERE name = 'quiet'`,
    );
    const health = cluster.replica.app.nest.get(ListenerHealth) as unknown as { check(): Promise<unknown> };
    await health.check();
    expect((await quiet.call('GET', '')).body.state).toBe('active');
  });
});

describe.each(['before', 'after'] as const)('when the database is cut off %s a COMMIT', (when) => {
  let proxy: TcpProxy;
  let replica: TestApp;
  let consumer: TestConsumer;
  const name = `cut-${when}`;

  beforeAll(async () => {
    proxy = await startTcpProxy(cluster.database.url, { remember: false });
    replica = await startApp({ ...cluster.database, url: proxy.url }, { ROLES: 'api' });
    consumer = new TestConsumer(replica, name);
  });
  afterAll(async () => {
    await replica.close();
    await proxy.close();
  });

  it('what was handed out to nobody is given back uncharged, and an acknowledgement can be repeated', async () => {
    const cut = await queue(name, { lease: '1h' });
    const [id] = await cut.post('a');
    proxy.cutAtCommit(when);
    expect((await consumer.call('pull')).status).toBe(503);
    const [message] = await consumer.pull({ wait: '20s' });
    expect(message).toMatchObject({ id, attempt: 1 });
    proxy.cutAtCommit(when);
    const response = await consumer.call('acknowledge', { acknowledge: [message!.lease] });
    expect([response.status, response.body.type]).toEqual([503, 'urn:sluice:problems/database-away']);
    expect(await consumer.acknowledge(message!)).toEqual(['done']);
    expect(await cluster.counts(name)).toEqual({ finished: 1 });
  });
});
