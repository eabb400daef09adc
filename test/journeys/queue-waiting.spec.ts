import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { PullQueues } from '../../src/outbox/pull/pull-queues.ts';
import { CONSUME_KEY, type TestApp } from '../support/app.ts';
import { TestConsumer } from '../support/consumer.ts';
import { metricsOf } from '../support/metrics.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { TestQueue } from '../support/test-queue.ts';
import { until } from '../support/until.ts';

let cluster: TestCluster;

beforeAll(async () => {
  // Polling alone would be too late for every test here.
  cluster = await TestCluster.open({ OUTBOX_POLL: '1m' }, 2);
});
afterEach(() => cluster.clear());
afterAll(() => cluster.close());

const queue = (name: string, definition?: Record<string, unknown>) =>
  TestQueue.open(cluster, name, definition);
const waiting = async (replica: TestApp) => (await metricsOf(replica))('pulls_waiting');
const allWait = (replica: TestApp, count: number) => until(async () => (await waiting(replica)) === count);

/** Sends a request to pull on a connection of its own, and reads nothing. */
function pullOnSocket({ url }: TestApp, name: string, body: Record<string, unknown>): Socket {
  const { hostname, port } = new URL(url);
  const text = JSON.stringify(body);
  const socket = connect(Number(port), hostname);
  socket.pause();
  socket.write(
    `POST /v1/listeners/${name}/pull HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${CONSUME_KEY}\r\n` +
      `content-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
  );
  return socket;
}

describe('E8: a long poll', () => {
  it.each([0, 1])('returns as soon as a message is there, on replica %d', async (n) => {
    const long = await queue(`long-${n}`);
    const pulling = long.consumers[n]!.pull({ wait: '20s' });
    await allWait(cluster.replicas[n]!, 1);
    const ids = await long.post('a');
    expect((await pulling).map(({ id }) => id)).toEqual(ids);
  });

  it('returns nothing when its time is over', async () => {
    const idle = await queue('idle');
    const { body } = await idle.consumer.call('pull', { wait: '50ms' });
    expect(body).toEqual({
      messages: [],
      leaseFor: '30s',
      waitsFor: 'messages',
      explanation: expect.any(String),
    });
  });

  it('returns the next message of a key as soon as the one before is settled, whichever replica does it', async () => {
    const next = await queue('next');
    const [first, second] = next.consumers;
    const ids = await next.post('a', 'a', 'a');
    const [message] = await first!.pull();
    for (const [settling, polling, id, replica] of [
      [first!, second!, ids[1], 1],
      [second!, second!, ids[2], 1],
    ] as const) {
      const pulling = polling.pull({ wait: '20s' });
      await allWait(cluster.replicas[replica]!, 1);
      await settling.acknowledge(message!);
      const [following] = await pulling;
      expect(following!.id).toBe(id);
      Object.assign(message!, following);
    }
  });

  it('returns a message whose hold or lease ends meanwhile', async () => {
    const ending = await queue('ending', { lease: '1s' });
    const [id] = await ending.post('a');
    const [message] = await ending.consumer.pull();
    await ending.consumer.settle({ retry: [{ lease: message!.lease, after: '300ms' }] });
    const [again] = await ending.consumer.pull({ wait: '20s' });
    expect(again).toMatchObject({ id, attempt: 2 });
    expect(await ending.consumer.pull({ wait: '20s' })).toEqual([
      expect.objectContaining({ id, attempt: 3 }),
    ]);
  });

  it('shares one scan with all others, and hands each message to one of them', async () => {
    const shared = await queue('shared');
    const pulling = Array.from({ length: 200 }, () => shared.consumer.pull({ max: 1, wait: '20s' }));
    await allWait(cluster.replica, 200);
    const statements = async () => {
      const [row] = await cluster.database.query<{ count: number }>(
        `SELECT count(*)::int AS count FROM pg_stat_activity WHERE datname = current_database()
           AND application_name = 'sluice engine' AND state <> 'idle'`,
      );
      return row!.count;
    };
    // No connection is held by those that wait.
    await until(async () => (await statements()) === 0);
    const ids = await shared.post(...Array.from({ length: 200 }, (_, n) => `k-${n}`));
    const handed = (await Promise.all(pulling)).flat().map(({ id }) => id);
    // One that got nothing yet is served when the next message comes.
    expect([...handed].sort()).toEqual([...ids].sort());
  });

  it('ends when its listener is deleted', async () => {
    const deleted = await queue('deleted');
    const pulling = deleted.consumer.call('pull', { wait: '20s' });
    await allWait(cluster.replica, 1);
    await cluster.call('DELETE', '/v1/listeners/deleted');
    expect((await pulling).status).toBe(404);
  });

  it('returns at once, with nothing, when its replica is stopped', async () => {
    const third = await cluster.start();
    const stopped = await queue('stopped');
    const consumer = new TestConsumer(third, stopped.name);
    const pulling = Array.from({ length: 3 }, () => consumer.call('pull', { wait: '50s' }));
    await allWait(third, 3);
    await cluster.stop(third);
    for (const { status, body } of await Promise.all(pulling))
      expect([status, body.messages]).toEqual([200, []]);
  });
});

describe('a consumer that hangs up', () => {
  it('while it waits, is handed nothing', async () => {
    const hungUp = await queue('hung-up');
    const socket = pullOnSocket(cluster.replica, 'hung-up', { wait: '50s' });
    await allWait(cluster.replica, 1);
    socket.destroy();
    await allWait(cluster.replica, 0);
    const ids = await hungUp.post('a');
    expect(await hungUp.consumer.pull()).toEqual([expect.objectContaining({ id: ids[0], attempt: 1 })]);
  });

  it('before its response is written, gives back what it was handed, at once and uncharged', async () => {
    const unsent = await queue('unsent', { lease: '1h' });
    const [, second] = unsent.consumers;
    const ids = await unsent.post('a', 'b');
    // What is written to this connection stays in the memory of the service, as if its buffers were full.
    cluster.replica.app.nest.getHttpServer().once('connection', (accepted: Socket) => {
      accepted._writev = () => undefined;
      accepted._write = () => undefined;
    });
    const socket = pullOnSocket(cluster.replica, 'unsent', {});
    await until(async () => (await unsent.inFlight()) === 2);
    expect(await second!.pull()).toEqual([]);
    const pulling = second!.pull({ wait: '20s' });
    await allWait(cluster.replicas[1]!, 1);
    socket.resetAndDestroy();
    expect((await pulling).map(({ id, attempt }) => [id, attempt])).toEqual(ids.map((id) => [id, 1]));
    const metrics = await metricsOf(cluster.replica);
    expect(metrics('pull_leases_total{listener="unsent",outcome="returned"}')).toBe(2);
  });

  it('after the hand-out was committed and before its response is written, too', async () => {
    const between = await queue('between', { lease: '1h' });
    const queues = cluster.replica.app.nest.get(PullQueues);
    const pull = queues.pull.bind(queues);
    const gone = new Promise<void>((resolve) => {
      queues.pull = async (...given) => {
        const result = await pull(...given);
        socket.destroy();
        // The service learns of it before it goes on.
        await until(() => given[2].aborted);
        resolve();
        return result;
      };
    });
    await between.post('a');
    const socket = pullOnSocket(cluster.replica, 'between', {});
    await gone;
    queues.pull = pull;
    expect(await between.consumer.pull({ wait: '20s' })).toEqual([expect.objectContaining({ attempt: 1 })]);
  });
});
