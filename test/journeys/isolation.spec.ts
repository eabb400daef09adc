import type { ServerResponse } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { metricsOf } from '../support/metrics.ts';
import { hang, ok, type Receiver, type Responder } from '../support/receiver.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

let cluster: TestCluster;
const dripping = new Set<NodeJS.Timeout>();

beforeAll(async () => {
  cluster = await TestCluster.open({ DRAIN_TIMEOUT: '1s' });
});
afterEach(async () => {
  for (const timer of dripping) clearInterval(timer);
  dripping.clear();
  await cluster.clear();
});
afterAll(() => cluster.close());

const reset: Responder = (_received, response) => void response.socket!.resetAndDestroy();

/** A header that never ends, byte by byte: no idle timeout ever fires. */
const drip: Responder = (_received, response) => {
  const { socket } = response;
  socket!.write('HTTP/1.1 200 OK\r\nx-slow: ');
  const timer = setInterval(() => socket!.write('z'), 20);
  dripping.add(timer);
  socket!.on('error', () => undefined).on('close', () => clearInterval(timer));
};

const MESSAGES = 60;

const nameOf = (bad: readonly Responder[], n: number) => `l-${bad.length}-${n}`;

/** Ten listeners of everything; the first ones misbehave. */
async function tenListeners(bad: readonly Responder[]): Promise<{ sick: Receiver[]; healthy: Receiver[] }> {
  const all: Receiver[] = [];
  for (let n = 0; n < 10; n++) {
    const definition = { types: ['all/*'], timeout: '50s', retrySchedule: ['1h'] };
    all.push(await cluster.listen(nameOf(bad, n), definition, bad[n] ?? ok));
  }
  return { sick: all.slice(0, bad.length), healthy: all.slice(bad.length) };
}

describe('promise 7: a listener that is slow, dead or flooding slows no other', () => {
  it.each([
    ['1 hangs', [hang]],
    ['3 hang, reset or drip bytes', [hang, reset, drip]],
    ['9 hang, reset or drip bytes', [hang, hang, hang, hang, reset, reset, drip, drip, drip]],
  ])('%s: the others of ten get everything before a single one of its calls has ended', async (_, bad) => {
    const { sick, healthy } = await tenListeners(bad);
    const messages = Array.from({ length: MESSAGES }, (_, n) => ({
      type: 'all/x',
      key: `k-${n}`,
      payload: n,
    }));
    await cluster.post(...messages);
    await until(() => healthy.every(({ received }) => received.length === MESSAGES));
    for (const [n, receiver] of healthy.entries()) {
      const name = nameOf(bad, bad.length + n);
      await until(async () => (await cluster.counts(name)).finished === MESSAGES);
      expect(new Set(receiver.received.map(({ body }) => body.data)).size).toBe(MESSAGES);
    }
    for (const [n, receiver] of sick.entries()) {
      if (bad[n] === reset) continue;
      // All its lanes, and no others, are in use by it.
      expect(receiver.received.length).toBeLessThanOrEqual(16);
      expect(await tried(nameOf(bad, n))).toBe(0);
    }
  });

  it('E4 a listener has no more calls in flight than lanes, over all replicas together', async () => {
    // No listener gets more than two lanes of a replica: four in flight need two of the three replicas.
    const both = await TestCluster.open({ OUTBOX_LANES: '12', DRAIN_TIMEOUT: '1s' }, 3);
    try {
      const open: ServerResponse[] = [];
      let most = 0;
      await both.listen('four', { lanes: 4, timeout: '50s' }, (_received, response) => {
        open.push(response);
        most = Math.max(most, open.length);
      });
      await both.post(...Array.from({ length: 40 }, (_, n) => ({ type: 'four/x', key: `k-${n}` })));
      for (let responded = 0; responded < 40; responded++) {
        // Later a lane may be empty.
        await until(() => open.length >= (responded < 12 ? 4 : 1));
        open.shift()!.writeHead(204).end();
      }
      await until(async () => (await both.counts('four')).finished === 40);
      expect(most).toBe(4);
    } finally {
      await both.close();
    }
  });

  it('a listener with more lanes than this replica has left does not take the last one', async () => {
    const greedy = await cluster.start({ ROLES: 'outbox', OUTBOX_LANES: '12' });
    await cluster.stop(cluster.replica);
    const others = await cluster.start({ ROLES: 'api,inbox' });
    cluster.replicas.reverse();
    const sick = await cluster.listen('greedy', { timeout: '50s', lanes: 64 }, hang);
    const messages = Array.from({ length: 64 }, (_, n) => ({ type: 'greedy/x', key: `k-${n}` }));
    await cluster.post(...messages);
    await until(() => sick.received.length > 0);
    const healthy = await cluster.listen('modest', { timeout: '50s' });
    await cluster.post({ type: 'modest/x', key: 'k' });
    await until(() => healthy.received.length === 1);
    expect(await tried('greedy')).toBe(0);
    expect(sick.received.length).toBeLessThan(12);
    await cluster.stop(greedy);
    await cluster.stop(others);
    await cluster.start();
  });
});

/** How many attempts have ended. */
async function tried(listener: string): Promise<number> {
  const { pending = 0, processing = 0, ...ended } = await cluster.counts(listener);
  expect(pending + processing).toBeGreaterThan(0);
  return Object.values(ended).reduce((sum, count) => sum + count, 0);
}

describe('E4 the connections to a listener', () => {
  it('are at most 100 per replica, and no call waits for one: it is not made', async () => {
    const open: ServerResponse[] = [];
    const definition = { lanes: 256, ordered: false, timeout: '50s' };
    const receiver = await cluster.listen(
      'wide',
      definition,
      (_received, response) => void open.push(response),
    );
    await cluster.post(...Array.from({ length: 150 }, (_, n) => ({ type: 'wide/x', payload: n })));
    const inFlight = async () => (await metricsOf(cluster.replica))('deliveries_in_flight');
    await until(async () => open.length === 100 && (await cluster.counts('wide')).processing === 150);
    expect(await inFlight()).toBe(100);
    receiver.respond = ok;
    for (const response of open) response.writeHead(204).end();
    await until(async () => (await cluster.counts('wide')).finished === 150);
  });
});
