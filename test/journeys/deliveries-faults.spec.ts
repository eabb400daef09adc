import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Loop } from '../../src/clock/loop.ts';
import { Loops } from '../../src/clock/loops.ts';
import type { LeasedLane } from '../../src/outbox/claim/leased-lane.ts';
import { LeasedLanes } from '../../src/outbox/claim/leased-lanes.ts';
import { hang, ok, type Received, status } from '../support/receiver.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

let cluster: TestCluster;
const servers: { server: Server; sockets: Set<Socket> }[] = [];

beforeAll(async () => {
  cluster = await TestCluster.open({ DRAIN_TIMEOUT: '1s', OUTBOX_POLL: '20ms' }, 1, { outboxLease: 4_000 });
});
afterEach(async () => {
  await cluster.clear();
  for (const { server, sockets } of servers.splice(0)) {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
});
afterAll(() => cluster.close());

/** A receiver that does not follow HTTP; called once a request has arrived. */
async function listenRaw(
  name: string,
  behave: (socket: Socket) => void,
  definition: object = {},
): Promise<void> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined));
    socket.once('data', () => behave(socket));
  });
  servers.push({ server, sockets });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}/`;
  await cluster.put(name, { url, timeout: '2s', retrySchedule: ['1h'], ...definition });
}

const lanesOf = async (listener: string) =>
  cluster.database.query<{ leased: boolean; epoch: string; crashes: number }>(
    `SELECT leased_until > '-infinity' AS leased, epoch, crashes FROM lane WHERE queue = 'outbox' AND lane / 256 = $1`,
    [await cluster.numberOf(listener)],
  );

/** No replica holds a lane of the listener. */
const free = (listener: string) =>
  until(async () => (await lanesOf(listener)).every(({ leased }) => !leased));

async function polledTimes(times: number): Promise<void> {
  const { all } = cluster.replica.app.nest.get(Loops) as unknown as { all: Loop[] };
  const loop = all.find(({ name }) => name === 'outbox')!;
  for (let n = 0; n < times; n++) {
    const last = loop.lastCycleAt;
    await until(() => loop.lastCycleAt > last);
  }
}

const sameLane = (name: string, count: number, from = 1) =>
  Array.from({ length: count }, (_, n) => ({ type: `${name}/x`, key: 'k', payload: from + n }));
const data = (received: readonly Received[]) => received.map(({ body }) => body.data);

describe('receivers that misbehave', () => {
  const flood = (socket: Socket) => {
    for (let n = 0; n < 1_000; n++) socket.write('HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n');
  };
  const endless = (socket: Socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n');
    const more = () => {
      while (!socket.destroyed && socket.write(`1000\r\n${'x'.repeat(4096)}\r\n`));
    };
    socket.on('drain', more);
    more();
  };

  it.each([
    ['garbage', 'held', 'protocol: ', (socket: Socket) => void socket.end('I am not HTTP\r\n\r\n')],
    ['a flood of 1xx', 'held', 'protocol: more than 16 informational responses', flood],
    [
      'huge headers',
      'held',
      'protocol: ',
      (socket: Socket) => void socket.write(`HTTP/1.1 200 OK\r\nx: ${'x'.repeat(64_000)}\r\n\r\n`),
    ],
    ['a reset', 'held', 'reset: ', (socket: Socket) => void socket.resetAndDestroy()],
    [
      'half a response',
      'held',
      'reset: ',
      (socket: Socket) => void socket.end('HTTP/1.1 200 OK\r\ncontent-'),
    ],
    ['silence', 'held', 'timeout: ', () => undefined],
    ['an endless body after 200', 'finished', null, endless],
  ])('%s: the delivery is %s, and the next one is served', async (what, expected, error, behave) => {
    const name = what.replaceAll(/\W/g, '-');
    await listenRaw(name, behave);
    const [id] = await cluster.post({ type: `${name}/x`, key: 'k', payload: 1 });
    const delivery = await cluster.delivery(id, expected);
    if (error === null) expect(delivery).toMatchObject({ attempt: 1, error: null });
    else expect(delivery.error).toContain(error);
    await free(name);
  });
});

describe('pending deliveries are neither lost nor stuck', () => {
  it('when their message was removed they become dead letters with that reason, and the key continues', async () => {
    const receiver = await cluster.listen('removed');
    await cluster.call('POST', '/v1/listeners/removed/pause');
    const [gone, there] = await cluster.post(...sameLane('removed', 2));
    await cluster.delivery(there, 'pending');
    const unsent = (await cluster.deliveries(gone!))[0]!;
    await cluster.stop(cluster.replica);
    await cluster.start();
    await cluster.database.query('DELETE FROM inbox WHERE id = $1', [gone]);
    await cluster.call('POST', '/v1/listeners/removed/resume');
    await cluster.delivery(there, 'finished');
    const [row] = await cluster.database.query('SELECT status, error FROM outbox WHERE id = $1', [unsent.id]);
    expect(row).toEqual({ status: 'dead', error: 'its message was removed before it could be sent' });
    expect(data(receiver.received)).toEqual([2]);
  });

  it('of a deleted listener stay untouched, and are sent when it is created again', async () => {
    const receiver = await cluster.listen('deleted', { retrySchedule: ['1ms'] });
    receiver.respond = hang;
    const ids = await cluster.post(...sameLane('deleted', 3));
    await until(() => receiver.received.length === 1);
    await cluster.call('DELETE', '/v1/listeners/deleted');
    await receiver.close();
    await until(async () => (await cluster.counts('deleted')).held === 3);
    await free('deleted');
    const before = await lanesOf('deleted');
    await polledTimes(5);
    expect(await lanesOf('deleted')).toEqual(before);
    expect(await cluster.counts('deleted')).toEqual({ held: 3 });
    const again = await cluster.listen('deleted');
    await cluster.delivery(ids[2], 'finished');
    expect(data(again.received)).toEqual([1, 2, 3]);
    const [first] = await cluster.deliveries(ids[0]!);
    expect(first).toMatchObject({ attempt: 2, sequence: 1 });
  });

  it('wait when a gate closes in the middle of a run; nothing is charged, and order is kept', async () => {
    const receiver = await cluster.listen('gated', { lanes: 1 });
    receiver.respond = (received, response, count) =>
      (count === 3 ? status(503, { 'retry-after': '1' }) : ok)(received, response, count);
    const messages = Array.from({ length: 12 }, (_, n) => ({
      type: 'gated/x',
      key: `k-${n % 4}`,
      payload: n,
    }));
    const ids = await cluster.post(...messages);
    await until(() => receiver.received.length === 3);
    await free('gated');
    expect(receiver.received).toHaveLength(3);
    for (const id of ids)
      expect(['finished', 'held', 'pending']).toContain((await cluster.deliveries(id))[0]!.status);
    await until(async () => (await cluster.counts('gated')).finished === 12);
    for (const key of [0, 1, 2, 3]) {
      const got = [...new Set(data(receiver.received).filter((n) => n % 4 === key))];
      expect(got).toEqual([key, key + 4, key + 8]);
    }
    const attempts = await cluster.database.query(`SELECT DISTINCT attempt FROM outbox WHERE listener = $1`, [
      await cluster.numberOf('gated'),
    ]);
    expect(attempts).toEqual([{ attempt: 1 }]);
  });

  it.each([
    ['notices it at its renewal', false],
    ['was frozen', true],
  ])(
    'of a lane that another replica took while this one %s: nothing more is sent, no result is written',
    async (_, frozen) => {
      const name = frozen ? 'frozen' : 'stolen';
      const open: ServerResponse[] = [];
      const receiver = await cluster.listen(
        name,
        { lanes: 1 },
        (_received, response) => void open.push(response),
      );
      const ids = await cluster.post(...sameLane(name, 4));
      await until(() => open.length === 1);
      const lane = (await cluster.numberOf(name)) * 256;
      const { lanes } = cluster.replica.app.nest.get(LeasedLanes) as unknown as {
        lanes: Map<number, LeasedLane>;
      };
      const leased = lanes.get(lane)!;
      await cluster.database.query(
        `UPDATE lane SET token = gen_random_uuid(), leased_until = now() + interval '1 hour' WHERE queue = 'outbox' AND lane = $1`,
        [lane],
      );
      if (frozen) leased.safeUntilMs = 0;
      else await until(() => leased.lost);
      receiver.respond = ok;
      ok(receiver.received[0]!, open[0]!, 1);
      await until(() => leased.lost && !lanes.has(lane));
      await polledTimes(3);
      expect(receiver.received).toHaveLength(1);
      expect(await cluster.counts(name)).toEqual({ processing: 4 });
      // The other replica dies, too.
      await cluster.database.query(
        `UPDATE lane SET leased_until = now() WHERE queue = 'outbox' AND lane = $1`,
        [lane],
      );
      await cluster.delivery(ids[3], 'finished');
      expect(data(receiver.received)).toEqual([1, 1, 2, 3, 4]);
      const [first] = await cluster.deliveries(ids[0]!);
      const errors = first!.attempts.map(({ error }) => error);
      expect(errors).toEqual([expect.stringContaining('had lost the lane'), null]);
    },
  );

  it('arrive although database connections break again and again, and repeats have a reason', async () => {
    const receiver = await cluster.listen('cut', { lanes: 4 });
    const total = 200;
    const ids = await cluster.post(
      ...Array.from({ length: total }, (_, n) => ({ type: 'cut/x', key: `k-${n % 20}`, payload: n })),
    );
    for (let round = 1; round <= 6; round++) {
      await until(() => receiver.received.length >= (round * total) / 8 || receiver.received.length >= total);
      await cluster.database.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'sluice engine'`,
      );
    }
    await until(async () => (await cluster.counts('cut')).finished === total);
    await free('cut');
    const times = new Map<string, number>();
    for (const { headers } of receiver.received) {
      const id = headers['webhook-id'] as string;
      times.set(id, (times.get(id) ?? 0) + 1);
    }
    expect(times.size).toBe(total);
    for (const id of ids) {
      const [delivery] = await cluster.deliveries(id);
      expect(delivery!.attempt).toBe(1);
      if (times.get(delivery!.id)! > 1) expect(delivery!.attempts.length).toBeGreaterThan(1);
    }
    for (let key = 0; key < 20; key++) {
      const got = [...new Set(data(receiver.received).filter((n) => n % 20 === key))];
      expect(got).toEqual(got.toSorted((a, b) => a - b));
    }
  });
});

describe('a replica that stops', () => {
  it('ends its calls within the drain, charges no attempt, and leaves no lane behind', async () => {
    const other = await cluster.start({ ROLES: 'api,inbox' });
    const receiver = await cluster.listen('drained', { timeout: '2s', lanes: 2 }, hang);
    const ids = await cluster.post(
      ...Array.from({ length: 20 }, (_, n) => ({ type: 'drained/x', key: `k-${n}`, payload: n })),
    );
    await until(() => receiver.received.length === 2);
    const begun = performance.now();
    await cluster.stop(cluster.replica);
    expect(performance.now() - begun).toBeLessThan(1_500);
    expect((await lanesOf('drained')).filter(({ leased }) => leased)).toEqual([]);
    expect(await cluster.counts('drained')).toEqual({ held: 2, pending: 18 });
    const records = await cluster.database.query<{ error: string }>('SELECT DISTINCT error FROM attempt');
    expect(records.map(({ error }) => error)).toContain('local: this replica is stopping');
    receiver.respond = ok;
    await cluster.start();
    for (const id of ids) expect(await cluster.delivery(id, 'finished')).toMatchObject({ attempt: 1 });
    await cluster.stop(other);
  });
});
