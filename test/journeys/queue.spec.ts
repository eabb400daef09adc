import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { TestCluster } from '../support/test-cluster.ts';
import { TestQueue } from '../support/test-queue.ts';
import { until } from '../support/until.ts';

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.open({}, 2);
});
afterEach(() => cluster.clear());
afterAll(() => cluster.close());

const queue = (name: string, definition?: Record<string, unknown>) =>
  TestQueue.open(cluster, name, definition);
const idsOf = (messages: readonly { id: string }[]) => messages.map(({ id }) => id);

describe('E2: a work queue', () => {
  it('hands out what was posted, once, and nothing more when it is acknowledged', async () => {
    const orders = await queue('orders');
    const [first, second] = orders.consumers;
    const ids = await orders.post('a', 'b', 'c');
    const messages = await first!.pull();
    expect(messages.map(({ id }) => id)).toEqual(ids);
    expect(messages[0]).toEqual({
      lease: expect.any(String),
      id: ids[0],
      type: 'orders/x',
      key: 'a',
      sequence: 1,
      attempt: 1,
      headers: {},
      timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
      payload: { n: 0 },
    });
    expect(await second!.pull()).toEqual([]);
    expect(await second!.acknowledge(...messages)).toEqual(['done', 'done', 'done']);
    expect(await first!.pull()).toEqual([]);
    expect(await cluster.counts('orders')).toEqual({ finished: 3 });
    expect(await orders.inFlight()).toBe(0);
  });

  it('hands out messages of a key one after the other, whichever replica is asked', async () => {
    const steps = await queue('steps');
    const [first, second] = steps.consumers;
    const ids = await steps.post('a', 'a', 'b', 'a');
    const seen: string[] = [];
    for (const consumer of [first!, second!, first!]) {
      const messages = await consumer.pull();
      expect(await second!.pull()).toEqual([]);
      seen.push(...idsOf(messages));
      await consumer.acknowledge(...messages);
    }
    expect(seen).toEqual([ids[0], ids[2], ids[1], ids[3]]);
  });

  it('hands out a key’s messages together if it is not ordered', async () => {
    const any = await queue('any', { ordered: false });
    const ids = await any.post('a', 'a', 'a');
    expect(idsOf(await any.consumer.pull()).sort()).toEqual([...ids].sort());
  });

  it('returns payload, headers and time exactly as they were posted', async () => {
    const exact = await queue('exact');
    const payload = '{"n": 1.0, "big": 12345678901234567890, "text": "é\\u0001\\n", "list": [ ]}';
    const body = `{"type":"exact/x","payload":${payload},"headers":{"tenant":"blue"},"occurredAt":"2026-01-02T03:04:05.678Z"}`;
    // A number that a double cannot hold is refused at the door.
    expect((await cluster.replica.call('POST', '/v1/messages', { body })).status).toBe(422);
    const exactly = body.replace('12345678901234567890', '1e2');
    expect((await cluster.replica.call('POST', '/v1/messages', { body: exactly })).status).toBe(202);
    const { text, body: pulled } = await exact.consumer.call('pull', { wait: '20s' });
    expect(text).toContain(`"payload":${payload.replace('12345678901234567890', '1e2')}`);
    expect(pulled.messages[0]).toMatchObject({
      headers: { tenant: 'blue' },
      timestamp: '2026-01-02T03:04:05.678Z',
    });
  });

  it('holds the key of a message that is to be retried, while other keys go on', async () => {
    const held = await queue('held');
    const [first, second] = held.consumers;
    const ids = await held.post('a', 'a', 'b');
    const [a, b] = await first!.pull();
    expect(
      await first!.settle({
        acknowledge: [b!.lease],
        retry: [{ lease: a!.lease, after: '1s', reason: 'no ink' }],
      }),
    ).toEqual(['done', 'done']);
    expect(await second!.pull()).toEqual([]);
    const [again] = await second!.pull({ wait: '20s' });
    expect(again).toMatchObject({ id: ids[0], attempt: 2 });
    await second!.acknowledge(again!);
    expect(idsOf(await first!.pull())).toEqual([ids[1]]);
    const delivery = await cluster.delivery(ids[0], 'finished');
    expect(delivery.attempts).toEqual([
      expect.objectContaining({ attempt: 1, error: 'no ink' }),
      expect.objectContaining({ attempt: 2, error: null }),
    ]);
  });

  it('retries as the schedule says, and makes it a dead letter after the last attempt', async () => {
    const tries = await queue('tries', { attempts: 3, retrySchedule: ['1ms'] });
    const [id] = await tries.post('a');
    for (const attempt of [1, 2, 3]) {
      const [message] = await tries.consumer.pull({ wait: '20s' });
      expect(message).toMatchObject({ id, attempt });
      await tries.consumer.settle({ retry: [{ lease: message!.lease, reason: `failed ${attempt}` }] });
    }
    expect(await cluster.delivery(id, 'dead')).toMatchObject({ attempt: 3, error: 'failed 3' });
    expect(await tries.consumer.pull()).toEqual([]);
  });

  it('makes a rejected message a dead letter at once, which can be revived', async () => {
    const strict = await queue('strict');
    const ids = await strict.post('a', 'a');
    const [first] = await strict.consumer.pull();
    await strict.consumer.settle({ reject: [{ lease: first!.lease, reason: 'no such customer' }] });
    const letters = await cluster.call('GET', '/v1/dead-letters?listener=strict');
    expect(letters.body.items).toEqual([expect.objectContaining({ error: 'no such customer', attempt: 1 })]);
    const [second] = await strict.consumer.pull();
    expect(second!.id).toBe(ids[1]);
    await strict.consumer.acknowledge(second!);
    await cluster.call('POST', `/v1/dead-letters/${letters.body.items[0].id}/revive`);
    const [revived] = await strict.consumer.pull({ wait: '20s' });
    expect(revived).toMatchObject({ id: ids[0], attempt: 1 });
  });

  it('holds the messages behind a dead letter if the listener says so', async () => {
    const careful = await queue('careful', { onDead: 'hold' });
    const ids = await careful.post('a', 'a', 'b');
    const [a, b] = await careful.consumer.pull();
    await careful.consumer.settle({
      acknowledge: [b!.lease],
      reject: [{ lease: a!.lease, reason: 'broken' }],
    });
    expect(await careful.consumer.pull()).toEqual([]);
    const [letter] = (await cluster.call('GET', '/v1/dead-letters?listener=careful')).body.items;
    await cluster.call('POST', `/v1/dead-letters/${letter.id}/revive`);
    const [revived] = await careful.consumer.pull({ wait: '20s' });
    expect(revived!.id).toBe(ids[0]);
    await careful.consumer.acknowledge(revived!);
    expect(idsOf(await careful.consumer.pull({ wait: '20s' }))).toEqual([ids[1]]);
  });
});

describe('E7, B9: a lease', () => {
  it('that runs out returns the message, charged; a late acknowledgement is fenced and records nothing', async () => {
    const leased = await queue('leased', { lease: '1s', attempts: 2 });
    const [first, second] = leased.consumers;
    const [id] = await leased.post('a');
    const [message] = await first!.pull();
    const [again] = await second!.pull({ wait: '20s' });
    expect(again).toMatchObject({ id, attempt: 2 });
    expect(await first!.acknowledge(message!)).toEqual(['fenced']);
    expect(await first!.settle({ reject: [{ lease: message!.lease, reason: 'no' }] })).toEqual(['fenced']);
    expect(await first!.settle({ extend: [{ lease: message!.lease }] })).toEqual(['fenced']);
    const dead = await cluster.delivery(id, 'dead');
    expect(dead.attempts.map(({ error }) => error)).toEqual([
      'the lease ran out; it may have been processed',
      'the lease ran out; it may have been processed',
    ]);
    expect(await second!.acknowledge(again!)).toEqual(['fenced']);
    expect(await leased.inFlight()).toBe(0);
  });

  it('lasts longer when it is extended, as often as that is', async () => {
    const long = await queue('long', { lease: '1s' });
    await long.post('a', 'b');
    const [slow, lost] = await long.consumer.pull();
    expect(await long.consumer.settle({ extend: [{ lease: slow!.lease, by: '1h' }] })).toEqual(['done']);
    const [again] = await long.consumer.pull({ wait: '20s' });
    expect(again!.id).toBe(lost!.id);
    expect(await long.consumer.settle({ extend: [{ lease: slow!.lease }] })).toEqual(['done']);
    expect(await long.consumer.acknowledge(slow!)).toEqual(['done']);
  });

  it('of a month ago stops no other lease from running out', async () => {
    const old = await queue('old', { lease: '1h' });
    const ids = await old.post('a', 'b');
    await old.consumer.pull();
    await cluster.database.query(
      `UPDATE pull_lease SET expires_at = now(), handed_at = now() - CASE WHEN position = (SELECT min(position) FROM pull_lease)
                                                                    THEN interval '30 days' ELSE interval '1 hour' END`,
    );
    const again = new Map<string, number>();
    await until(async () => {
      for (const { id, attempt } of await old.consumer.pull({ wait: '1s' })) again.set(id, attempt);
      return again.size === 2;
    });
    expect(again).toEqual(new Map(ids.map((id) => [id, 2])));
  });

  it('that was settled can be settled in the same way again: the response may have been lost', async () => {
    const twice = await queue('twice', { retrySchedule: ['1h'] });
    await twice.post('a', 'b', 'c');
    const [a, b, c] = await twice.consumer.pull();
    const verdict = {
      acknowledge: [a!.lease],
      retry: [{ lease: b!.lease }],
      reject: [{ lease: c!.lease, reason: 'no' }],
    };
    expect(await twice.consumer.settle(verdict)).toEqual(['done', 'done', 'done']);
    expect(await twice.consumer.settle(verdict)).toEqual(['done', 'done', 'done']);
    const other = { acknowledge: [b!.lease, c!.lease], retry: [{ lease: a!.lease }] };
    expect(await twice.consumer.settle(other)).toEqual(['fenced', 'fenced', 'fenced']);
    expect(await cluster.counts('twice')).toEqual({ finished: 1, held: 1, dead: 1 });
    const [{ count }] = (await cluster.database.query(
      'SELECT count(*)::int AS count FROM attempt WHERE error = $1',
      ['no'],
    )) as [{ count: number }];
    expect(count).toBe(1);
  });

  it('of another listener, or of none, is unknown, and the others of the request are settled', async () => {
    const [own, other] = [await queue('own'), await queue('other')];
    await own.post('a');
    await other.post('a');
    const [mine] = await own.consumer.pull();
    const [theirs] = await other.consumer.pull();
    const [lane, position, attempt, token] = mine!.lease.split('.');
    const forged = [
      `${lane}.999999.${attempt}.${token}`,
      `${Number(lane) + 1}.${position}.${attempt}.${token}`,
      `99999999999.${position}.${attempt}.${token}`,
    ];
    const acknowledge = [theirs!.lease, 'no lease', mine!.lease, ...forged];
    expect(await own.consumer.settle({ acknowledge })).toEqual([
      'unknown',
      'unknown',
      'done',
      'unknown',
      'unknown',
      'unknown',
    ]);
    expect(await other.consumer.acknowledge(theirs!)).toEqual(['done']);
  });

  it('with another token is fenced', async () => {
    const guessed = await queue('guessed');
    await guessed.post('a');
    const [message] = await guessed.consumer.pull();
    const lease = message!.lease.replace(/[0-9a-f]{12}$/, '000000000000');
    expect(await guessed.consumer.settle({ acknowledge: [lease] })).toEqual(['fenced']);
    expect(await guessed.inFlight()).toBe(1);
  });

  it('of a deleted listener returns the message uncharged, and it waits for the listener', async () => {
    const gone = await queue('gone', { lease: '1s' });
    const [id] = await gone.post('a');
    await gone.consumer.pull();
    await cluster.call('DELETE', '/v1/listeners/gone');
    expect((await gone.consumer.call('pull')).status).toBe(404);
    await until(async () => (await gone.inFlight()) === 0);
    const back = await queue('gone', { lease: '1s' });
    expect(await back.consumer.pull()).toEqual([expect.objectContaining({ id, attempt: 1 })]);
  });
});
