import { connect } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { Loops } from '../../src/clock/loops.ts';
import { Polls } from '../../src/groups/polls.ts';
import { CONSUME_KEY, startApp } from '../support/app.ts';
import { openSession, untilBlocked } from '../support/session.ts';
import { sharedReplicas } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const { database, replicas } = sharedReplicas(2);
let number = 0;

const WAITING_FOR_MEMBERS = `SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'group_member'::regclass`;

/** Any replica serves any request. */
function call(method: string, path: string, body?: unknown, key?: string) {
  number += 1;
  return replicas[number % replicas.length]!.call(method, path, { body, ...(key ? { key } : {}) });
}

interface Place {
  readonly topic: string;
  readonly partition: number;
  readonly fence: number;
  readonly committed: number;
  readonly next: number;
}
interface Batch extends Place {
  readonly from: number;
  readonly to: number;
  readonly count: number;
  readonly messages: { offset: number; id: string; key: string; attempt: number; payload: unknown }[];
}
interface Polled {
  readonly assigned: Place[];
  readonly draining: Place[];
  readonly committed: { topic: string; partition: number; outcome: string; committed?: number }[];
  readonly batches: Batch[];
  readonly why?: string;
}

async function createGroup(
  definition: object = {},
  partitions = 4,
): Promise<{ topic: string; group: string }> {
  const topic = `orders-${++number}`;
  const group = `billing-${number}`;
  expect((await call('PUT', `/v1/topics/${topic}`, { partitions })).status).toBe(201);
  const { status, body } = await call('PUT', `/v1/groups/${group}`, {
    topics: [topic],
    // On a busy machine a member may be silent for long.
    session: '10m',
    ...definition,
  });
  expect([status, body.errors]).toEqual([201, undefined]);
  return { topic, group };
}

async function post(topic: string, count: number, key = (n: number) => `k-${n}`): Promise<void> {
  const messages = Array.from({ length: count }, (_, n) => ({ key: key(n), payload: { n } }));
  for (let from = 0; from < count; from += 500) {
    const { status, text } = await call('POST', `/v1/topics/${topic}/messages/batch`, {
      messages: messages.slice(from, from + 500),
    });
    expect([status, text.slice(0, 200)]).toEqual([202, text.slice(0, 200)]);
  }
  await until(async () => {
    const { body } = await call('GET', `/v1/topics/${topic}`);
    const written = body.partitions.reduce((sum: number, { next }: { next: number }) => sum + next, 0);
    return written >= count;
  });
}

async function join(
  group: string,
  name?: string,
): Promise<{ member: string; assigned: Place[]; why?: string }> {
  const { status, body } = await call('POST', `/v1/groups/${group}/members`, { name }, CONSUME_KEY);
  expect(status).toBe(201);
  return body;
}

async function poll(group: string, member: string, more: object = {}): Promise<Polled> {
  const { status, body, text } = await call(
    'POST',
    `/v1/groups/${group}/poll`,
    { member, ...more },
    CONSUME_KEY,
  );
  if (status !== 200) throw new Error(`${status} ${text}`);
  return body;
}

/** Returns the id of the poll. */
async function untilPolling(member: string, before: string | null = null): Promise<string> {
  const sql = 'SELECT poll FROM group_member WHERE id = $1 AND poll IS DISTINCT FROM $2::uuid';
  return until(async () => {
    const [row] = await database.query<{ poll: string }>(sql, [member, before]);
    return row?.poll;
  }) as Promise<string>;
}

function offsetsOf({ batches }: Polled, key: 'to' | 'from' = 'to') {
  return batches.map(({ topic, partition, fence, ...batch }) => ({
    topic,
    partition,
    fence,
    offset: batch[key],
  }));
}

async function commit(group: string, member: string, offsets: object[]) {
  const { status, body, text } = await call(
    'POST',
    `/v1/groups/${group}/commit`,
    { member, offsets },
    CONSUME_KEY,
  );
  if (status !== 200) throw new Error(`${status} ${text}`);
  return body.offsets as Polled['committed'];
}

describe('a consumer group', () => {
  it('B1: reads every message once, in the order of each partition, and commits', async () => {
    const { topic, group } = await createGroup();
    await post(topic, 1_000);
    const { member, assigned } = await join(group);
    expect(assigned.map(({ partition, committed, next }) => [partition, committed, next])).toEqual(
      [0, 1, 2, 3].map((partition) => [partition, -1, 0]),
    );
    const seen = new Map<number, number[]>();
    let offsets: object[] = [];
    for (let count = 0; count < 1_000; ) {
      const polled = await poll(group, member, { max: 130, commit: offsets });
      expect(polled.committed.map(({ outcome }) => outcome)).toEqual(offsets.map(() => 'committed'));
      for (const { partition, messages } of polled.batches) {
        seen.set(partition, [...(seen.get(partition) ?? []), ...messages.map(({ offset }) => offset)]);
        count += messages.length;
      }
      offsets = offsetsOf(polled);
    }
    for (const read of seen.values()) expect(read).toEqual(read.map((_, index) => index));
    await commit(group, member, offsets);
    const { body } = await call('GET', `/v1/groups/${group}`);
    expect([body.lag, body.members.length]).toEqual([0, 1]);
    expect(body.partitions[0]).toMatchObject({ state: 'owned', member, lag: 0 });
  });

  it('B1: is independent of other groups', async () => {
    const { topic, group } = await createGroup();
    await call('PUT', '/v1/groups/other-group', { topics: [topic] });
    await post(topic, 20);
    const [one, two] = [await join(group), await join('other-group')];
    const first = await poll(group, one.member);
    await commit(group, one.member, offsetsOf(first));
    const second = await poll('other-group', two.member);
    expect(second.batches.map(({ count }) => count)).toEqual(first.batches.map(({ count }) => count));
  });

  it('B6: a poll waits for messages and gets them as soon as the read model shows them', async () => {
    const { topic, group } = await createGroup();
    const { member } = await join(group);
    const waiting = poll(group, member, { wait: '30s' });
    await post(topic, 1);
    const { batches } = await waiting;
    expect(batches).toHaveLength(1);
    expect(batches[0]!.messages[0]).toMatchObject({ offset: 0, key: 'k-0', attempt: 1, payload: { n: 0 } });
  });

  it('B7: never commits back, beyond what was handed out, or for somebody else', async () => {
    const { topic, group } = await createGroup({}, 1);
    await post(topic, 10);
    const { member } = await join(group);
    const { batches } = await poll(group, member, { max: 5 });
    const place = { topic, partition: 0, fence: batches[0]!.fence };
    expect(await commit(group, member, [{ ...place, offset: 3 }])).toEqual([
      { topic, partition: 0, outcome: 'committed', committed: 3 },
    ]);
    expect(await commit(group, member, [{ ...place, offset: 1 }])).toEqual([
      { topic, partition: 0, outcome: 'behind', committed: 3 },
    ]);
    expect(await commit(group, member, [{ ...place, offset: 5 }])).toEqual([
      { topic, partition: 0, outcome: 'ahead', committed: 3 },
    ]);
    expect(await commit(group, member, [{ ...place, fence: place.fence + 1, offset: 4 }])).toEqual([
      { topic, partition: 0, outcome: 'fenced' },
    ]);
    const other = await join(group);
    expect(await commit(group, other.member, [{ ...place, offset: 4 }])).toEqual([
      { topic, partition: 0, outcome: 'fenced' },
    ]);
    expect((await call('GET', `/v1/groups/${group}`)).body.partitions[0]).toMatchObject({
      committed: 3,
      handed: 4,
    });
  });

  it('B7: shows rejected messages as the topic of its dead letters, each once', async () => {
    const { topic, group } = await createGroup({}, 1);
    await post(topic, 5);
    const { member } = await join(group);
    const { batches } = await poll(group, member);
    const place = { topic, partition: 0, fence: batches[0]!.fence };
    const rejected = [{ offset: 2, reason: 'no such customer' }];
    await commit(group, member, [{ ...place, offset: 3, rejected }]);
    await commit(group, member, [{ ...place, offset: 2, rejected }]);
    const { body } = await call('GET', `/v1/topics/${group}.dead/messages`);
    expect(body).toMatchObject({ count: 1, next: 1 });
    expect(body.messages[0]).toMatchObject({
      id: batches[0]!.messages[2]!.id,
      reason: 'no such customer',
      attempts: 1,
      origin: { topic, partition: 0, offset: 2 },
      payload: { n: 2 },
    });
  });
});

describe('members of a group', () => {
  it('B8: share the partitions evenly, and a joining one waits for what is in flight', async () => {
    const { topic, group } = await createGroup();
    await post(topic, 40);
    const one = await join(group, 'one');
    const polled = await poll(group, one.member);
    expect(polled.batches).toHaveLength(4);
    const two = await join(group, 'two');
    expect(two.assigned).toEqual([]);
    expect(two.why).toContain('draining');
    const waiting = poll(group, two.member, { wait: '30s' });
    const committed = await poll(group, one.member, { max: 0, commit: offsetsOf(polled) });
    expect(committed.committed.map(({ outcome }) => outcome)).toEqual(Array(4).fill('committed'));
    expect((await waiting).assigned).toHaveLength(2);
    const now = await poll(group, one.member, { max: 0 });
    expect([now.assigned.length, now.draining.length]).toEqual([2, 0]);
  });

  it('get no more than they asked for, each partition once, when a poll frees partitions for others', async () => {
    const { topic, group } = await createGroup();
    await post(topic, 40);
    const one = await join(group);
    const first = await poll(group, one.member, { max: 4 });
    await join(group);
    const second = await poll(group, one.member, { max: 2, commit: offsetsOf(first) });
    expect([second.assigned.length, second.draining.length]).toEqual([2, 0]);
    expect(second.batches.map(({ partition, count }) => [partition, count])).toEqual(
      second.assigned.map(({ partition }) => [partition, 1]),
    );
  });

  it('B8: hand their messages over when they leave', async () => {
    const { topic, group } = await createGroup();
    await post(topic, 40);
    const one = await join(group);
    const first = await poll(group, one.member);
    const two = await join(group);
    const waiting = poll(group, two.member, { wait: '30s' });
    expect(
      (await call('DELETE', `/v1/groups/${group}/members/${one.member}`, undefined, CONSUME_KEY)).status,
    ).toBe(204);
    let count = 0;
    for (let polled = await waiting; count < 40; polled = await poll(group, two.member)) {
      for (const { messages } of polled.batches) {
        count += messages.length;
        expect(new Set(messages.map(({ attempt }) => attempt))).toEqual(new Set([1]));
      }
    }
    expect(await commit(group, two.member, offsetsOf(first))).toEqual(
      first.batches.map(({ topic, partition }) => ({ topic, partition, outcome: 'fenced' })),
    );
  });

  it('B8: that die lose what they had to others, with the next attempt', async () => {
    const { topic, group } = await createGroup({ session: '2s' });
    await post(topic, 40);
    const one = await join(group);
    const first = await poll(group, one.member);
    expect(first.batches.flatMap(({ messages }) => messages)).toHaveLength(40);
    const two = await join(group);
    const got: number[] = [];
    await until(async () => {
      const { batches } = await poll(group, two.member, { wait: '5s' });
      got.push(...batches.flatMap(({ messages }) => messages.map(({ attempt }) => attempt)));
      return got.length >= 40;
    });
    expect(got).toEqual(Array(40).fill(2));
    const { status, body } = await call(
      'POST',
      `/v1/groups/${group}/poll`,
      { member: one.member },
      CONSUME_KEY,
    );
    expect([status, body.type]).toEqual([404, 'urn:sluice:problems/member-unknown']);
  });

  it('B8: a message that kills every consumer becomes a dead letter, alone', async () => {
    const { topic, group } = await createGroup({ session: '2s', attempts: 3 }, 1);
    await post(topic, 4);
    const sizes: number[] = [];
    for (let death = 0; death < 3; death++) {
      const { member } = await join(group);
      const batch = await until(async () => (await poll(group, member, { wait: '3s' })).batches[0]);
      sizes.push(batch!.count);
    }
    const { member } = await join(group);
    const last = await until(async () => (await poll(group, member, { wait: '3s' })).batches[0]);
    expect([sizes, last!.from]).toEqual([[4, 4, 1], 1]);
    const { body } = await call('GET', `/v1/topics/${group}.dead/messages`);
    expect(body.messages[0].reason).toContain('died 3 times');
  });

  it('B8: with takeover "skip" a joining member gets at once what lies beyond', async () => {
    const { topic, group } = await createGroup({ takeover: 'skip' }, 2);
    await post(topic, 40);
    const one = await join(group);
    const first = await poll(group, one.member, { max: 20 });
    const two = await join(group);
    const moved = two.assigned[0]!.partition;
    const held = first.batches.find(({ partition }) => partition === moved)!;
    const beyond = await poll(group, two.member);
    expect(beyond.batches[0]!.from).toBe(held.to + 1);
    const [mine] = await commit(group, one.member, [
      { topic, partition: moved, fence: held.fence, offset: held.to },
    ]);
    expect(mine!.outcome).toBe('committed');
    const { body } = await call('GET', `/v1/groups/${group}`);
    expect(body.partitions.filter(({ partition }: Place) => partition === moved)).toHaveLength(1);
  });

  it('get what is assigned to them, also if they are dropped before they learn of it', async () => {
    const { group } = await createGroup({}, 2);
    const [cursors, members] = [await openSession(database), await openSession(database)];
    await cursors.query('BEGIN');
    await cursors.query('SELECT FROM group_cursor FOR UPDATE');
    const joining = call('POST', `/v1/groups/${group}/members`, {}, CONSUME_KEY);
    await untilBlocked(database);
    const dropped = members.query('LOCK TABLE group_member; DELETE FROM group_member');
    await until(async () => (await database.query(WAITING_FOR_MEMBERS)).length > 0);
    await cursors.query('COMMIT');
    const { status, body } = await joining;
    expect([status, body.assigned?.length]).toEqual([201, 2]);
    await dropped;
    await Promise.all([cursors.close(), members.close()]);
  });

  it('more than there are partitions get none, and learn why', async () => {
    const { group } = await createGroup({}, 1);
    await join(group);
    expect(await join(group)).toMatchObject({ assigned: [], why: expect.stringContaining('more members') });
  });
});

describe('a topic that is deleted and created again', () => {
  it('is read from its beginning, also by a group that started at the end', async () => {
    const { topic, group } = await createGroup({ start: 'latest' }, 1);
    const { member } = await join(group);
    expect((await call('DELETE', `/v1/topics/${topic}`)).status).toBe(204);
    expect((await call('PUT', `/v1/topics/${topic}`, { partitions: 1 })).status).toBe(201);
    await post(topic, 3);
    expect((await poll(group, member, { wait: '20s' })).batches[0]).toMatchObject({ from: 0, to: 2 });
    const old = await call('GET', `/v1/topics/${topic}/messages?from=100`);
    expect(old.body).toMatchObject({ count: 0, next: 3, from: 100 });
  });
});

describe('a poll', () => {
  it('returns every partition its share, and at least one message whatever its size', async () => {
    const { topic, group } = await createGroup({}, 4);
    await post(topic, 400);
    const { member } = await join(group);
    const { batches } = await poll(group, member, { max: 42 });
    expect(batches.map(({ count }) => count).sort()).toEqual([10, 10, 11, 11]);
    const tiny = await poll(group, member, { max: 42, maxBytes: 1 });
    expect(tiny.batches.map(({ count }) => count)).toEqual([1]);
    const few = await poll(group, member, { max: 2 });
    expect(few.batches.map(({ count }) => count)).toEqual([1, 1]);
  });

  it('stops at maxInFlight, and says so', async () => {
    const { topic, group } = await createGroup({ maxInFlight: 10 }, 1);
    await post(topic, 30);
    const { member } = await join(group);
    expect((await poll(group, member)).batches[0]!.count).toBe(10);
    expect(await poll(group, member)).toMatchObject({
      batches: [],
      why: expect.stringContaining('maxInFlight'),
    });
  });

  it('hands out again what never arrived', async () => {
    const { topic, group } = await createGroup({}, 1);
    await post(topic, 10);
    const { member } = await join(group);
    const { batches } = await poll(group, member, { max: 6 });
    const next = [{ topic, partition: 0, fence: batches[0]!.fence, next: 2 }];
    const again = await poll(group, member, { next });
    expect([again.batches[0]!.from, again.batches[0]!.to]).toEqual([2, 9]);
  });

  it('keeps its member alive while it waits, longer than the session', async () => {
    const { topic, group } = await createGroup({ session: '5s' });
    const { member } = await join(group);
    expect((await poll(group, member, { wait: '8s' })).batches).toEqual([]);
    await post(topic, 1);
    expect((await poll(group, member)).batches).toHaveLength(1);
  });

  it('keeps its member alive if the loop that stores that is late', async () => {
    const { group } = await createGroup({ session: '1s' });
    const busy = await startApp(database);
    const join = () => busy.call('POST', `/v1/groups/${group}/members`, { body: {} });
    const { member } = (await join()).body;
    const waiting = busy.call('POST', `/v1/groups/${group}/poll`, { body: { member, wait: '50s' } });
    await untilPolling(member);
    await busy.app.nest.get(Loops).beforeApplicationShutdown();
    await until(async () => {
      const { members } = (await call('GET', `/v1/groups/${group}`)).body;
      return !members[0].alive;
    });
    await join();
    const { members } = (await call('GET', `/v1/groups/${group}`)).body;
    expect(members.map(({ member }: { member: string }) => member)).toContain(member);
    await busy.close();
    expect((await waiting).status).toBe(200);
  });

  it('is no sign of life at its end: half a session is left to poll again', async () => {
    const { topic, group } = await createGroup({ session: '3s' }, 1);
    await post(topic, 1);
    const { member } = await join(group);
    await poll(group, member);
    const seen = async () => {
      const [row] = await database.query<{ seen: number }>(
        'SELECT EXTRACT(epoch FROM seen_at)::float8 AS seen FROM group_member WHERE id = $1',
        [member],
      );
      return row!.seen;
    };
    const waiting = poll(group, member, { wait: '10s' });
    await untilPolling(member);
    const before = await seen();
    expect((await waiting).batches).toEqual([]);
    // 8.5 s, and not 10 s; longer than a session after its last request.
    expect((await seen()) - before).toBeGreaterThan(3);
    expect((await seen()) - before).toBeLessThan(9.5);
  });

  it('that waits at a replica which stops gets a response at once, empty', async () => {
    const { group } = await createGroup();
    const { member } = await join(group);
    const stopping = await startApp(database);
    const waiting = stopping.call('POST', `/v1/groups/${group}/poll`, { body: { member, wait: '50s' } });
    await untilPolling(member);
    await stopping.close();
    expect(await waiting).toMatchObject({ status: 200, body: { batches: [] } });
  });

  it.each([
    ['at the same replica', 0],
    ['at another replica', 1],
  ])(
    'of a member that polls again %s with `next` ends, and the later one gets the messages',
    async (_where, other) => {
      const { topic, group } = await createGroup({}, 1);
      const { member } = await join(group);
      const path = `/v1/groups/${group}/poll`;
      const early = replicas[0]!.call('POST', path, { body: { member, wait: '50s' } });
      const before = await untilPolling(member);
      const late = replicas[other]!.call('POST', path, { body: { member, wait: '50s', next: [] } });
      await untilPolling(member, before);
      await post(topic, 3);
      expect((await late).body.batches[0]).toMatchObject({ from: 0, to: 2 });
      expect(await early).toMatchObject({
        status: 409,
        body: { type: 'urn:sluice:problems/poll-in-progress' },
      });
    },
  );

  it('beside another one of its member is refused, and ends nothing', async () => {
    const { topic, group } = await createGroup({}, 1);
    const { member } = await join(group);
    const path = `/v1/groups/${group}/poll`;
    const waiting = replicas[0]!.call('POST', path, { body: { member, wait: '50s' } });
    await untilPolling(member);
    expect(await replicas[0]!.call('POST', path, { body: { member } })).toMatchObject({
      status: 409,
      body: { type: 'urn:sluice:problems/poll-in-progress' },
    });
    await post(topic, 3);
    expect((await waiting).body.batches[0]).toMatchObject({ from: 0, to: 2 });
  });

  it('that replaces many of its member loses no message', async () => {
    const { topic, group } = await createGroup({}, 1);
    const { member } = await join(group);
    await post(topic, 300);
    const path = `/v1/groups/${group}/poll`;
    const polls = await Promise.all(
      Array.from({ length: 20 }, () =>
        replicas[0]!.call('POST', path, { body: { member, max: 10, next: [] } }),
      ),
    );
    const handed = polls
      .flatMap(({ status, body }) => (status === 200 ? (body as Polled).batches : []))
      .flatMap(({ messages }) => messages.map(({ offset }) => offset));
    expect(handed.sort((a, b) => a - b)).toEqual(Array.from({ length: handed.length }, (_, n) => n));
    expect(polls.at(-1)!.status).toBe(200);
    expect((await poll(group, member)).batches[0]!.from).toBe(handed.length);
  });

  it('is taken back when its client goes away, and nothing is handed to nobody', async () => {
    const { topic, group } = await createGroup({}, 1);
    const { member } = await join(group);
    const gone = new AbortController();
    const waiting = fetch(`${replicas[0]!.url}/v1/groups/${group}/poll`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${CONSUME_KEY}` },
      body: JSON.stringify({ member, wait: '30s' }),
      signal: gone.signal,
    });
    await untilPolling(member);
    gone.abort();
    await expect(waiting).rejects.toThrow();
    await post(topic, 3);
    expect((await poll(group, member, { wait: '20s' })).batches[0]).toMatchObject({ from: 0, to: 2 });
  });

  it('whose client hangs up while it reads the response is taken back, and no attempt is counted', async () => {
    const { topic, group } = await createGroup({}, 1);
    const { member } = await join(group);
    const text = 'x'.repeat(500_000);
    for (let n = 0; n < 31; n += 1)
      await call('POST', `/v1/topics/${topic}/messages`, { key: 'k', payload: { n, text } });
    await until(async () => (await call('GET', `/v1/topics/${topic}`)).body.partitions[0].next === 31);
    const body = JSON.stringify({ member, maxBytes: 16_000_000 });
    const url = new URL(replicas[0]!.url);
    const socket = connect(Number(url.port), url.hostname);
    socket.write(
      `POST /v1/groups/${group}/poll HTTP/1.1\r\nhost: ${url.host}\r\ncontent-type: application/json\r\n` +
        `authorization: Bearer ${CONSUME_KEY}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await until(async () => (await call('GET', `/v1/groups/${group}`)).body.partitions[0].handed === 30);
    const before = await untilPolling(member);
    const again = replicas[1]!.call('POST', `/v1/groups/${group}/poll`, { body: { member, wait: '50s' } });
    await untilPolling(member, before);
    socket.destroy();
    const { batches } = (await again).body as Polled;
    expect(batches[0]).toMatchObject({ from: 0 });
    expect(batches[0]!.messages.every(({ attempt }) => attempt === 1)).toBe(true);
  });

  it('is taken back only by itself: a later one may have handed out the same messages', async () => {
    const { topic, group } = await createGroup({}, 1);
    await post(topic, 10);
    const { member } = await join(group);
    const polls = replicas[0]!.app.nest.get(Polls);
    const { signal } = new AbortController();
    const unread = (await polls.poll(group, { member }, signal))!;
    const next = [{ ...unread.batches[0]!, next: 0 }];
    const again = (await polls.poll(group, { member, next }, signal))!;
    expect(again.batches[0]).toMatchObject({ first: 0, last: 9 });
    await polls.unread({ group, member, ...unread });
    const [place] = again.batches;
    const offsets = [{ topic, partition: 0, fence: place!.fence, offset: 9 }];
    expect(await commit(group, member, offsets)).toMatchObject([{ outcome: 'committed' }]);
  });

  it('B10: starts over after a seek, which live members prevent', async () => {
    const { topic, group } = await createGroup({}, 1);
    await post(topic, 10);
    const { member } = await join(group);
    await commit(group, member, offsetsOf(await poll(group, member)));
    const seek = (body: object) => call('POST', `/v1/groups/${group}/seek`, body);
    expect((await seek({ to: 'earliest' })).body).toMatchObject({
      status: 409,
      type: 'urn:sluice:problems/group-active',
    });
    const partitions = [{ topic, partition: 0, from: 10, to: 4 }];
    expect((await seek({ to: { offset: 4 }, dryRun: true })).body).toEqual({
      dryRun: true,
      again: 6,
      skipped: 0,
      partitions,
    });
    await call('DELETE', `/v1/groups/${group}/members/${member}`);
    expect((await seek({ to: { offset: 4 } })).body).toEqual({
      dryRun: false,
      again: 6,
      skipped: 0,
      partitions,
    });
    const again = await join(group);
    expect((await poll(group, again.member)).batches[0]).toMatchObject({ from: 4, to: 9 });
  });
});
