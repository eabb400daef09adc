import type { ServerResponse } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Loop } from '../../src/clock/loop.ts';
import { Loops } from '../../src/clock/loops.ts';
import { Listeners } from '../../src/listeners/listeners.ts';
import { Gates } from '../../src/outbox/admit/gates.ts';
import type { TestApp } from '../support/app.ts';
import { ok, type Receiver, status } from '../support/receiver.ts';
import { TestCluster, waitUntilKnown } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

let cluster: TestCluster;
let other: TestApp;

beforeAll(async () => {
  cluster = await TestCluster.open({ OUTBOX_POLL: '20ms', DRAIN_TIMEOUT: '1s' }, 2);
  other = cluster.replicas[1]!;
});
afterEach(() => cluster.clear());
afterAll(() => cluster.close());

interface Gate {
  readonly openings: number;
  readonly pauses: number;
  readonly reason: string;
  readonly seconds: number;
}

async function gateOf(listener: string): Promise<Gate | undefined> {
  const [row] = await cluster.database.query<Gate>(
    `SELECT openings, pauses, reason, round(extract(epoch FROM closed_until - now()))::int AS seconds FROM gate WHERE listener = $1`,
    [await cluster.numberOf(listener)],
  );
  return row;
}

/** As if the time of the gate were over; the replicas notice it with their next poll. */
async function letTimePass(listener: string): Promise<void> {
  await cluster.database.query('UPDATE gate SET closed_until = now() WHERE listener = $1', [
    await cluster.numberOf(listener),
  ]);
}

/** Waits until both replicas have polled for work this often. */
async function polledTimes(times: number): Promise<void> {
  for (const { app } of cluster.replicas) {
    const { all } = app.nest.get(Loops) as unknown as { all: Loop[] };
    const loop = all.find(({ name }) => name === 'outbox')!;
    for (let n = 0; n < times; n++) {
      const last = loop.lastCycleAt;
      await until(() => loop.lastCycleAt > last);
    }
  }
}

/** A listener whose circuit has just opened, with 5 more deliveries waiting. `tried`: how many deliveries that took, 10 on one replica. */
async function openCircuit(name: string): Promise<{ receiver: Receiver; tried: number }> {
  const receiver = await cluster.listen(name, { retrySchedule: ['1h'] }, status(500));
  const post = (from: number, count: number) =>
    cluster.post(...Array.from({ length: count }, (_, n) => ({ type: `${name}/x`, key: `k-${from + n}` })));
  let tried = 0;
  for (let count = 10; !(await gateOf(name)); count = 1) {
    await post(tried, count);
    tried += count;
    await until(async () => (await cluster.counts(name)).held === tried);
  }
  await polledTimes(1);
  await cluster.post(...Array.from({ length: 5 }, (_, n) => ({ type: `${name}/x`, key: `later-${n}` })));
  return { receiver, tried };
}

/** Responses that a test sends when it wants to. */
function byHand(receiver: Receiver): ServerResponse[] {
  const open: ServerResponse[] = [];
  receiver.respond = (_received, response) => void open.push(response);
  return open;
}

describe('E12 the circuit breaker of a listener', () => {
  it('opens for 30 s when most of the last calls failed, and nothing is sent on any replica', async () => {
    const { receiver, tried } = await openCircuit('opens');
    expect(await gateOf('opens')).toMatchObject({ openings: 1, reason: 'circuit open: responded 500' });
    expect(tried).toBeGreaterThanOrEqual(10);
    expect(tried).toBeLessThan(20);
    expect((await gateOf('opens'))!.seconds).toBeGreaterThan(25);
    expect((await gateOf('opens'))!.seconds).toBeLessThanOrEqual(30);
    await polledTimes(5);
    expect(receiver.received).toHaveLength(tried);
    expect((await cluster.counts('opens')).pending).toBe(5);
  });

  it('is tried with one delivery over all replicas, and doubles its time up to 10 min', async () => {
    const { receiver, tried } = await openCircuit('doubles');
    const waiting = byHand(receiver);
    for (const [index, seconds] of [60, 120, 240, 480, 600, 600].entries()) {
      await letTimePass('doubles');
      await until(() => waiting.length === 1);
      await polledTimes(3);
      expect(receiver.received).toHaveLength(tried + 1 + index);
      waiting.pop()!.writeHead(503).end();
      await until(async () => (await gateOf('doubles'))?.openings === index + 2);
      const closed = (await gateOf('doubles'))!.seconds;
      expect(closed).toBeGreaterThan(seconds - 5);
      expect(closed).toBeLessThanOrEqual(seconds);
      // Only five have not been tried yet; those that failed an hour ago may be retried.
      await cluster.database.query(
        `UPDATE hold SET until = now() WHERE queue = 'outbox' AND until < 'infinity'`,
      );
    }
  });

  it('leaves the probe to its current holder when an earlier probe ends late', async () => {
    const { receiver, tried } = await openCircuit('overlaps');
    await cluster.call('POST', '/v1/listeners/overlaps/pause');
    for (const one of cluster.replicas)
      await waitUntilKnown(one, 'overlaps', ({ state }) => state === 'paused');
    const number = await cluster.numberOf('overlaps');
    const [one, two] = cluster.replicas.map(({ app }) => app.nest.get(Gates));
    await letTimePass('overlaps');
    const first = await one!.takeProbe(number, 20_000);
    await letTimePass('overlaps');
    const second = await two!.takeProbe(number, 20_000);
    await one!.probeFailed(
      number,
      { firstMs: 30_000, maxMs: 600_000 },
      'circuit open: responded 503',
      first!,
    );
    await one!.returnProbe(number, 0, first!);
    expect(await gateOf('overlaps')).toMatchObject({ reason: 'probing' });
    expect((await gateOf('overlaps'))!.seconds).toBeGreaterThan(10);
    await two!.returnProbe(number, 0, second!);
    expect(await gateOf('overlaps')).toMatchObject({ reason: 'to be probed' });
    expect(receiver.received).toHaveLength(tried);
  });

  it('closes when the probe succeeds, and everything continues', async () => {
    const { receiver, tried } = await openCircuit('closes');
    receiver.respond = ok;
    await letTimePass('closes');
    await until(() => receiver.received.length === tried + 5);
    await until(async () => (await cluster.counts('closes')).finished === 5);
    expect(await gateOf('closes')).toMatchObject({ openings: 0 });
    expect((await gateOf('closes'))!.seconds).toBeLessThanOrEqual(0);
  });

  it('closes and keeps a pause that an earlier call was asked for during the probe', async () => {
    const { receiver, tried } = await openCircuit('late');
    const waiting = byHand(receiver);
    await letTimePass('late');
    await until(() => waiting.length === 1);
    await other.app.nest.get(Gates).pause(await cluster.numberOf('late'), 600_000, 'responded 429', false);
    receiver.respond = ok;
    waiting[0]!.writeHead(204).end();
    await until(async () => (await cluster.counts('late')).finished === 1);
    expect(await gateOf('late')).toMatchObject({ openings: 0, reason: 'responded 429' });
    expect((await gateOf('late'))!.seconds).toBeGreaterThan(500);
    await polledTimes(3);
    expect(receiver.received).toHaveLength(tried + 1);
  });

  it('closes and pauses when the probe gets a response with Retry-After', async () => {
    const { receiver, tried } = await openCircuit('pauses');
    receiver.respond = status(429, { 'retry-after': '20' });
    await letTimePass('pauses');
    await until(async () => (await gateOf('pauses'))?.openings === 0);
    expect((await gateOf('pauses'))!.seconds).toBeGreaterThan(10);
    expect(receiver.received).toHaveLength(tried + 1);
    receiver.respond = ok;
    await letTimePass('pauses');
    // The delivery that has to wait waits; the other four are sent at once, without another probe.
    await until(() => receiver.received.length === tried + 5);
  });

  it('releases the probe when there is nothing to send', async () => {
    const { receiver, tried } = await openCircuit('empty');
    receiver.respond = ok;
    await cluster.database.query(
      `UPDATE lane SET leased_until = now() + interval '1 hour' WHERE queue = 'outbox'`,
    );
    await letTimePass('empty');
    await polledTimes(3);
    await cluster.database.query(`UPDATE lane SET leased_until = '-infinity' WHERE queue = 'outbox'`);
    await until(() => receiver.received.length === tried + 5);
  });

  it('is reset when the listener gets another URL, or is resumed', async () => {
    await openCircuit('moves');
    const healthy = await cluster.listen('moves', { retrySchedule: ['1h'] });
    await until(() => healthy.received.length === 5);
    const { receiver, tried } = await openCircuit('resumed');
    receiver.respond = ok;
    await cluster.call('POST', '/v1/listeners/resumed/pause');
    await cluster.call('POST', '/v1/listeners/resumed/resume');
    await until(() => receiver.received.length === tried + 5);
  });

  it('a listener that asks for pauses in a row waits twice as long each time, up to 5 min, until a delivery succeeds', async () => {
    const receiver = await cluster.listen('again', { lanes: 1 }, status(503, { 'retry-after': '0' }));
    const [id] = await cluster.post({ type: 'again/x', key: 'a' });
    const pausedFor = async (pauses: number) => {
      await until(async () => (await gateOf('again'))?.pauses === pauses);
      return (await gateOf('again'))!.seconds;
    };
    for (const [index, seconds] of [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].entries()) {
      const closed = await pausedFor(index + 1);
      expect(closed).toBeGreaterThanOrEqual(seconds - 5);
      expect(closed).toBeLessThanOrEqual(seconds);
      await letTimePass('again');
      await cluster.database.query(`UPDATE hold SET until = now() WHERE queue = 'outbox'`);
    }
    // Calls in flight together count once.
    await pausedFor(12);
    const gates = cluster.replica.app.nest.get(Gates);
    const number = await cluster.numberOf('again');
    for (let n = 0; n < 3; n++) await gates.pause(number, 1_000, 'responded 503', false);
    expect((await gateOf('again'))!.pauses).toBe(12);

    receiver.respond = ok;
    await letTimePass('again');
    await cluster.delivery(id, 'finished');
    expect(await gateOf('again')).toMatchObject({ pauses: 0 });
    receiver.respond = status(503, { 'retry-after': '0' });
    await cluster.post({ type: 'again/x', key: 'b' });
    await pausedFor(1);
    // A request for a pause long ago starts over, too.
    const longAgo = `UPDATE gate SET pauses = 9, closed_until = now() - interval '11 min' WHERE listener = $1`;
    await cluster.database.query(longAgo, [number]);
    expect(await pausedFor(1)).toBeLessThanOrEqual(1);
  });

  it('a pause is removed when the listener gets another URL or is resumed, also for the key that caused it', async () => {
    const asked = status(429, { 'retry-after': '3600' });
    for (const change of ['moved', 'resumed-early']) {
      const receiver = await cluster.listen(change, { retrySchedule: ['1h'] }, asked);
      const [id] = await cluster.post({ type: `${change}/x`, key: 'a' });
      await cluster.delivery(id, 'held');
      await until(() => gateOf(change));
      receiver.respond = ok;
      if (change === 'moved') await cluster.listen(change, { retrySchedule: ['1h'] });
      else
        for (const act of ['pause', 'resume']) await cluster.call('POST', `/v1/listeners/${change}/${act}`);
      await cluster.delivery(id, 'finished');
    }
  });

  it('a pause requested after a resume is kept by a replica that learns of the resume later', async () => {
    const slow = await cluster.start({ ROLES: 'api' });
    try {
      const { all } = slow.app.nest.get(Loops) as unknown as { all: Loop[] };
      const receiver = await cluster.listen('later', { retrySchedule: ['1h'] });
      await cluster.call('POST', '/v1/listeners/later/pause');
      await waitUntilKnown(slow, 'later', ({ state }) => state === 'paused');
      await all.find(({ name }) => name === 'listeners')!.stop();
      await cluster.call('POST', '/v1/listeners/later/resume');
      receiver.respond = status(429, { 'retry-after': '60' });
      await cluster.post({ type: 'later/x', key: 'a' });
      await until(() => gateOf('later'));
      await slow.app.nest.get(Listeners).refresh();
      await slow.app.nest.get(Gates).startOver(await cluster.numberOf('later'));
      expect(await gateOf('later')).toMatchObject({ openings: 0 });
    } finally {
      await cluster.stop(slow);
    }
  });

  it('a replica knows of a pause that was requested from another', async () => {
    const receiver = await cluster.listen('everywhere', {}, status(503, { 'retry-after': '30' }));
    await cluster.post({ type: 'everywhere/x', key: 'a' });
    await until(async () => (await gateOf('everywhere')) !== undefined);
    await polledTimes(2);
    await other.call('POST', '/v1/messages', { body: { type: 'everywhere/x', key: 'b', payload: 1 } });
    await until(async () => (await cluster.counts('everywhere')).pending === 1);
    await polledTimes(3);
    expect(receiver.received).toHaveLength(1);
    expect(await cluster.counts('everywhere')).toEqual({ held: 1, pending: 1 });
  });
});
