import type { ServerResponse } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import type { Loop } from '../../src/clock/loop.ts';
import { Loops } from '../../src/clock/loops.ts';
import { ScheduledJobs } from '../../src/clock/scheduled-jobs.ts';
import { Listeners } from '../../src/listeners/listeners.ts';
import { ListenerHealth } from '../../src/outbox/health/listener-health.ts';
import { ok, type Receiver, status } from '../support/receiver.ts';
import { TestCluster, waitUntilKnown } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.open({ DRAIN_TIMEOUT: '1s' }, 2);
});
afterEach(() => cluster.clear());
afterAll(() => cluster.close());

const stateOf = async (listener: string) => (await cluster.call('GET', `/v1/listeners/${listener}`)).body;
const data = ({ received }: Receiver) => received.map(({ body }) => body.data);

describe('what listeners get', () => {
  it('a message without a listener is finished, and has no delivery', async () => {
    const [id] = await cluster.post({ type: 'nobody/x', key: 'k' });
    await until(async () => (await cluster.call('GET', `/v1/messages/${id}`)).body.status === 'finished');
    expect(await cluster.deliveries(id!)).toEqual([]);
  });

  it('sequences count from 1 without a gap, and order is kept, with two replicas and failures', async () => {
    const receiver = await cluster.listen('counted', { retrySchedule: Array(20).fill('1ms'), lanes: 4 });
    receiver.respond = (received, response, count) =>
      (count % 3 === 0 ? status(500) : ok)(received, response, count);
    const posts = Array.from({ length: 120 }, (_, n) => ({
      type: 'counted/x',
      key: `k-${n % 6}`,
      payload: n,
    }));
    await Promise.all(
      cluster.replicas.map((replica, half) =>
        replica.call('POST', '/v1/messages/batch', {
          body: { messages: posts.slice(half * 60, half * 60 + 60) },
        }),
      ),
    );
    await until(async () => (await cluster.counts('counted')).finished === 120);
    for (let key = 0; key < 6; key++) {
      const sequences = receiver.received
        .filter(({ body }) => body.key === `k-${key}`)
        .map(({ body }) => body.sequence);
      expect(sequences).toEqual(sequences.toSorted((a, b) => a - b));
      expect([...new Set(sequences)]).toEqual(Array.from({ length: 20 }, (_, n) => n + 1));
    }
  });

  it('times are in UTC, whatever the time zone of the database', async () => {
    await cluster.listen('zoned', { retrySchedule: ['1h'] }, status(500));
    const [id] = await cluster.post({ type: 'zoned/x', key: 'k' });
    await cluster.delivery(id, 'held');
    await cluster.database.query(
      `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Kolkata''', current_database()); END $$`,
    );
    const reader = await cluster.start({ ROLES: 'api' });
    try {
      const { body } = await reader.call('GET', `/v1/messages/${id}`);
      expect(body.deliveries[0].attempts[0].at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      expect(Math.abs(Date.parse(body.deliveries[0].attempts[0].at) - Date.now())).toBeLessThan(600_000);
      const why = await reader.call('GET', `/v1/messages/${id}/why`);
      expect(why.body.deliveries[0].explanation).toMatch(/until \d{4}-\d\d-\d\dT[\d:.]+Z \(retry\)/);
    } finally {
      await cluster.stop(reader);
    }
  });

  it('a message whose key is its id counts with the others of that key', async () => {
    const receiver = await cluster.listen('created');
    await cluster.post({ type: 'created/x', id: 'order-7', key: 'order-7', payload: 'created' });
    await until(() => receiver.received.length === 1);
    await cluster.post({ type: 'created/x', id: 'change-1', key: 'order-7', payload: 'changed' });
    await until(() => receiver.received.length === 2);
    expect(receiver.received.map(({ body }) => body.sequence)).toEqual([1, 2]);
  });

  it('a message without a key has the sequence 1, and waits for no other, whatever its id', async () => {
    const receiver = await cluster.listen('alone', { retrySchedule: ['1h'], onDead: 'hold' });
    receiver.respond = (received, response, count) =>
      (received.body.data === 'fails' ? status(500) : ok)(received, response, count);
    const event = (source: string, data: string) =>
      cluster.replica.call('POST', '/v1/messages', {
        headers: { 'content-type': 'application/cloudevents+json' },
        body: { specversion: '1.0', type: 'alone/x', id: '5', source, data },
      });
    await event('/a', 'fails');
    await until(() => receiver.received.length === 1);
    await event('/b', 'arrives');
    await until(() => receiver.received.length === 2);
    for (const { body } of receiver.received) expect(body).toMatchObject({ key: '5', sequence: 1 });
  });

  it('a message without a key does not count among those of an equal key, also in one batch', async () => {
    const receiver = await cluster.listen('mixed');
    const keyed = (payload: number) => ({ type: 'mixed/x', key: 'mixed-5', payload });
    await cluster.post(keyed(1), { type: 'mixed/x', id: 'mixed-5', payload: 'alone' }, keyed(2));
    await until(() => receiver.received.length === 3);
    await cluster.post({ type: 'mixed/x', id: 'mixed-6', key: 'mixed-5', payload: 3 });
    await until(() => receiver.received.length === 4);
    const numbers = new Map(receiver.received.map(({ body }) => [body.data, body.sequence]));
    expect(Object.fromEntries(numbers)).toEqual({ 1: 1, 2: 2, 3: 3, alone: 1 });
  });

  it('without order a delivery that fails or hangs does not delay others of its key', async () => {
    const receiver = await cluster.listen('unordered', {
      ordered: false,
      retrySchedule: ['1h'],
      timeout: '50s',
    });
    receiver.respond = (received, response, count) => {
      if (received.body.data === 'fails') status(500)(received, response, count);
      else if (received.body.data !== 'hangs') ok(received, response, count);
    };
    const ids = await cluster.post(
      ...['fails', 'hangs', 1, 2, 3].map((payload) => ({ type: 'unordered/x', key: 'same', payload })),
    );
    for (const id of ids.slice(2)) await cluster.delivery(id, 'finished');
    await cluster.delivery(ids[0], 'held');
    await cluster.delivery(ids[1], 'processing');
  });

  it('a secret is rotated under load on both replicas, and no delivery is rejected', async () => {
    const receiver = await cluster.listen('rotating');
    let secret = receiver.secret;
    let rejected = 0;
    receiver.respond = (received, response, count) => {
      try {
        new Webhook(secret).verify(received.text, received.headers as Record<string, string>);
        ok(received, response, count);
      } catch {
        rejected += 1;
        status(401)(received, response, count);
      }
    };
    let posted = 0;
    let posting = true;
    const load = (async () => {
      while (posting)
        await cluster.post(
          ...Array.from({ length: 10 }, () => ({
            type: 'rotating/x',
            key: `k-${posted % 40}`,
            payload: posted++,
          })),
        );
    })();
    await until(() => receiver.received.length > 30);
    const rotated = (await cluster.call('POST', '/v1/listeners/rotating/rotate-secret')).body;
    const number = await cluster.numberOf('rotating');
    const knows = ({ app }: TestCluster['replica']) =>
      app.nest.get(Listeners).byNumber(number)!.secrets.length === 2;
    await until(() => cluster.replicas.every(knows));
    // When more deliveries than fit into all lanes have arrived, those in flight before have, too; from then on only the new one counts.
    const more = async (count: number) => {
      const before = receiver.received.length;
      await until(() => receiver.received.length > before + count);
    };
    await more(30);
    secret = rotated.secret;
    await more(30);
    posting = false;
    await load;
    await until(async () => (await cluster.counts('rotating')).finished === posted);
    expect(rejected).toBe(0);
    expect(receiver.received).toHaveLength(posted);
  });
});

describe('a test of a listener', () => {
  it('has its own connection: hanging calls do not delay it, nor does it end them', async () => {
    const hanging: (() => void)[] = [];
    const receiver = await cluster.listen('busy', { lanes: 1 }, (received, response, count) => {
      const succeed = () => ok(received, response, count);
      if (received.body.type === 'urn:sluice:ping') succeed();
      else hanging.push(succeed);
    });
    const [id] = await cluster.post({ type: 'busy/x', key: 'k' });
    await until(() => hanging.length === 1);
    for (const replica of cluster.replicas) {
      const { body } = await replica.call('POST', '/v1/listeners/busy/test');
      expect(body).toMatchObject({ delivered: true, status: 204 });
    }
    hanging[0]!();
    expect((await cluster.delivery(id, 'finished')).attempts).toHaveLength(1);
    const types = receiver.received.map(({ body }) => body.type);
    expect(types).toEqual(['busy/x', 'urn:sluice:ping', 'urn:sluice:ping']);
  });
});

describe('E11 a listener that keeps failing', () => {
  const wake = async () => {
    const { all } = cluster.replica.app.nest.get(Loops) as unknown as { all: Loop[] };
    const health = all.find(({ name }) => name === 'listener-health')!;
    const last = health.lastCycleAt;
    cluster.replica.app.nest.get(ScheduledJobs).tick('listener-health');
    await until(() => health.lastCycleAt > last);
  };

  it('is disabled when nothing succeeded for 5 days and 10 deliveries were given up; after a resume the time starts over', async () => {
    const alerts = await cluster.listen('alerts', { types: ['urn:sluice:alerts/listener-disabled'] });
    const receiver = await cluster.listen('hopeless', { terminalStatuses: [400] }, status(400));
    const ids = await cluster.post(
      ...Array.from({ length: 10 }, (_, n) => ({ type: 'hopeless/x', key: `k-${n}`, payload: n })),
    );
    for (const id of ids) await cluster.delivery(id, 'dead');
    await wake();
    expect(await stateOf('hopeless')).toMatchObject({ state: 'active' });
    await cluster.database.query(
      `UPDATE listener SET state_since = now() - interval '5 days 1 minute' WHERE name = 'hopeless'`,
    );
    await wake();
    expect(await stateOf('hopeless')).toMatchObject({
      state: 'disabled',
      stateReason: 'no success for 5 days, 10 or more deliveries given up',
    });
    await until(() => alerts.received.length === 1);
    expect(alerts.received[0]!.body).toMatchObject({
      type: 'urn:sluice:alerts/listener-disabled',
      data: { listener: 'hopeless' },
    });
    for (const replica of cluster.replicas)
      await waitUntilKnown(replica, 'hopeless', ({ state }) => state === 'disabled');
    const [pending] = await cluster.post({ type: 'hopeless/x', key: 'later' });
    await cluster.delivery(pending, 'pending');
    receiver.respond = ok;
    await cluster.call('POST', '/v1/listeners/hopeless/resume');
    await cluster.delivery(pending, 'finished');
    await wake();
    expect(await stateOf('hopeless')).toMatchObject({ state: 'active' });
  });

  it('is not disabled with 9 given up, or with a success in the last 5 days', async () => {
    const receiver = await cluster.listen('hopeful', { terminalStatuses: [400] }, status(400));
    await cluster.post(...Array.from({ length: 9 }, (_, n) => ({ type: 'hopeful/x', key: `k-${n}` })));
    await until(async () => (await cluster.counts('hopeful')).dead === 9);
    await cluster.database.query(
      `UPDATE listener SET state_since = now() - interval '6 days' WHERE name = 'hopeful'`,
    );
    await wake();
    expect(await stateOf('hopeful')).toMatchObject({ state: 'active' });
    receiver.respond = ok;
    await cluster.post({ type: 'hopeful/x', key: 'good' });
    await until(async () => (await cluster.counts('hopeful')).finished === 1);
    for (const { app } of cluster.replicas) {
      const health = app.nest.get(ListenerHealth) as unknown as { writeSuccesses(): Promise<void> };
      await health.writeSuccesses();
    }
    receiver.respond = status(400);
    await cluster.post({ type: 'hopeful/x', key: 'tenth' });
    await until(async () => (await cluster.counts('hopeful')).dead === 10);
    await wake();
    expect(await stateOf('hopeful')).toMatchObject({ state: 'active' });
  });

  it('counts refusals in a row: a success in between resets the count', async () => {
    const receiver = await cluster.listen('mixed', {
      terminalStatuses: [403],
      disableAfter: { status: 403, times: 3 },
    });
    let n = 0;
    const respondWith = async (code: number) => {
      receiver.respond = code === 200 ? ok : status(code);
      const [id] = await cluster.post({ type: 'mixed/x', key: `k-${n++}` });
      await cluster.delivery(id, code === 200 ? 'finished' : 'dead');
    };
    for (const code of [403, 403, 200, 403, 403]) await respondWith(code);
    expect(await stateOf('mixed')).toMatchObject({ state: 'active' });
    await respondWith(403);
    await until(async () => (await stateOf('mixed')).state === 'disabled');
    expect(await stateOf('mixed')).toMatchObject({ stateReason: 'responded 403 3 times in a row' });
    expect(data(receiver)).toHaveLength(6);
    await cluster.call('POST', '/v1/listeners/mixed/resume');
    await respondWith(403);
    expect(await stateOf('mixed')).toMatchObject({ state: 'active' });
  });

  it('a resume resets the count: refusals before it, or of calls in flight, do not count', async () => {
    const rule = { ordered: false, terminalStatuses: [403], disableAfter: { status: 403, times: 3 } };
    const receiver = await cluster.listen('resumed', rule);
    const open: ServerResponse[] = [];
    receiver.respond = (_received, response) => void open.push(response);
    const post = (...keys: string[]) => cluster.post(...keys.map((key) => ({ type: 'resumed/x', key })));
    const refuse = async (count: number, dead: number) => {
      await until(() => open.length >= count);
      for (const response of open.splice(0, count)) response.writeHead(403).end();
      await until(async () => (await cluster.counts('resumed')).dead === dead);
    };
    await post('a', 'b', 'c', 'd', 'e');
    await until(() => open.length === 5);
    await refuse(3, 3);
    await until(async () => (await stateOf('resumed')).state === 'disabled');
    await refuse(1, 4);
    const { nest } = cluster.replica.app;
    const [health, listener] = [nest.get(ListenerHealth), nest.get(Listeners).of('resumed/x')[0]!];
    await cluster.call('POST', '/v1/listeners/resumed/resume');
    await refuse(1, 5);
    // Refusals of a replica that does not know of the resume.
    for (let n = 0; n < 3; n++) await health.respondedWith(listener, 403);
    await health.disable(listener, 'responded 410');
    for (const replica of cluster.replicas)
      await waitUntilKnown(replica, 'resumed', ({ revision }) => revision > listener.revision);
    await post('f', 'g');
    await refuse(2, 7);
    expect(await stateOf('resumed')).toMatchObject({ state: 'active' });
    await post('h');
    await refuse(1, 8);
    await until(async () => (await stateOf('resumed')).state === 'disabled');
  });

  it('also counts a success in between that another replica has not written yet', async () => {
    await cluster.listen('elsewhere', { disableAfter: { status: 403, times: 2 } });
    const number = await cluster.numberOf('elsewhere');
    const { nest } = cluster.replica.app;
    const health = nest.get(ListenerHealth);
    const { succeeded } = health as unknown as { succeeded: Map<number, number> };
    const refused = () => health.respondedWith(nest.get(Listeners).byNumber(number)!, 403);
    await refused();
    const [id] = await cluster.post({ type: 'elsewhere/x', key: 'k' });
    await cluster.delivery(id, 'finished');
    succeeded.clear();
    await refused();
    expect(await stateOf('elsewhere')).toMatchObject({ state: 'active' });
    await refused();
    expect(await stateOf('elsewhere')).toMatchObject({ state: 'disabled' });
  });
});
