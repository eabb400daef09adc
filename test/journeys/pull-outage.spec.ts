import { beforeAll, describe, expect, it } from '@jest/globals';
import { TestConsumer } from '../support/consumer.ts';
import { GroupClient } from '../support/group-client.ts';
import { sharedReplicaBehindProxy } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const { database, proxy, replica } = sharedReplicaBehindProxy({ DATABASE_STATEMENT_TIMEOUT: '1s' });

let client: GroupClient;
beforeAll(() => {
  client = new GroupClient(replica);
});

const AWAY = 'urn:sluice:problems/database-away';
const OUTAGE_MS = 2_000;

/** All connections are cut, and new ones refused, until `request` has got a 503 and for `ms` at least. */
async function outage(
  request: () => Promise<{ status: number; body: { type?: string } }>,
  ms = OUTAGE_MS,
): Promise<void> {
  proxy.switchTo('postgres://127.0.0.1:1/nowhere');
  proxy.blackHole();
  proxy.closeBlackHoles();
  const endsAt = performance.now() + ms;
  try {
    await until(async () => {
      const { status, body } = await request();
      if (status === 503) expect(body.type).toBe(AWAY);
      return status === 503 && performance.now() > endsAt;
    });
  } finally {
    proxy.switchTo(database.url);
  }
  await until(async () => (await replica.call('GET', '/readyz', { key: null })).status === 200);
}

describe('an outage of the database during a long poll', () => {
  it.each([
    ['ends before the wait', '10s', 0],
    ['is followed by the messages that it waits for', '20s', 6],
  ])(
    'of a group that %s: a result or a 503, nothing lost, nothing handed out twice',
    async (_what, wait, more) => {
      const { topic, group } = await client.create({ topic: { partitions: 2 }, group: { session: '10m' } });
      await client.post(topic, 4);
      const member = await client.join(group);
      const handed: string[] = [];
      const next = new Map<string, object>();
      const take = ({ batches = [] }: Partial<Awaited<ReturnType<typeof client.poll>>>) => {
        for (const { topic, partition, fence, to, messages } of batches) {
          next.set(`${partition}`, { topic, partition, fence, next: to + 1 });
          handed.push(...messages.map(({ offset, attempt }) => `${partition}/${offset} ${attempt}`));
        }
      };
      while (handed.length < 4) take(await client.poll(group, member, { wait }));
      const waiting = client.tryPoll(group, member, { wait, next: [...next.values()] });
      const [row] = await database.query('SELECT poll FROM group_member WHERE id = $1', [member]);
      expect(row).toBeDefined();
      await outage(() => replica.call('GET', `/v1/topics/${topic}`));
      if (more > 0) await client.post(topic, more);
      const { status, body } = await waiting;
      expect([200, 503]).toContain(status);
      if (status === 503) expect(body.type).toBe(AWAY);
      else take(body);
      if (more === 0) await client.post(topic, 6);
      await until(async () => {
        take(await client.poll(group, member, { wait: '1s', next: [...next.values()] }));
        return handed.length >= 10;
      });
      take(await client.poll(group, member, { next: [...next.values()] }));
      expect(new Set(handed).size).toBe(handed.length);
      expect(handed).toHaveLength(10);
      expect(handed.every((one) => one.endsWith(' 1'))).toBe(true);
      const { lag } = await client.expect(200, 'GET', `/v1/groups/${group}`);
      expect(lag).toBe(10);
    },
  );

  it('drops no member of a group that could not be heard for longer than its session', async () => {
    const { topic, group } = await client.create({ topic: { partitions: 2 }, group: { session: '6s' } });
    await client.post(topic, 20);
    const [one, two] = [await client.join(group), await client.join(group)];
    await client.poll(group, one);
    const batch = await until(async () => (await client.poll(group, two)).batches[0]);
    await outage(() => client.tryPoll(group, one, { max: 0 }), 7_000);
    await client.poll(group, one, { max: 0 });
    const { members } = await client.expect(200, 'GET', `/v1/groups/${group}`);
    expect(members.map(({ member }: { member: string }) => member)).toEqual([one, two]);
    expect(await client.commit(group, two, batch!, batch!.to)).toBe('committed');
    // From now on it is silent.
    await until(async () => {
      await client.poll(group, one, { max: 0 });
      return (await client.expect(200, 'GET', `/v1/groups/${group}`)).members.length === 1;
    });
  });

  it.each([
    ['ends before the wait', '10s', 0],
    ['is followed by the messages that it waits for', '20s', 4],
  ])(
    'of a queue that %s: a result or a 503, nothing lost, nothing handed out twice',
    async (_what, wait, more) => {
      const name = `queue-${more}`;
      await client.expect(201, 'PUT', `/v1/listeners/${name}`, { mode: 'pull', types: [name], lease: '10m' });
      const consumer = new TestConsumer(replica, name);
      const post = (count: number) =>
        client.expect(202, 'POST', '/v1/messages/batch', {
          messages: Array.from({ length: count }, (_, n) => ({ type: name, key: `k-${n}`, payload: n })),
        });
      const pulled = new Map<string, { lease: string; attempt: number }[]>();
      const take = (messages: readonly { id: string; lease: string; attempt: number }[]) => {
        for (const one of messages) pulled.set(one.id, [...(pulled.get(one.id) ?? []), one]);
      };
      await post(2);
      await until(async () => {
        take(await consumer.pull({ wait: '1s', max: 1 }));
        return pulled.size === 2;
      });
      const waiting = consumer.call('pull', { wait });
      await outage(() => replica.call('GET', '/v1/backlog'));
      if (more > 0) await post(more);
      const { status, body } = await waiting;
      expect([200, 503]).toContain(status);
      if (status === 503) expect(body.type).toBe(AWAY);
      else take(body.messages);
      if (more === 0) await post(4);
      // Keys of which a message is in flight wait for that.
      const leases = [...pulled.values()].map(([one]) => one!);
      expect(new Set(await consumer.acknowledge(...leases))).toEqual(new Set(['done']));
      await until(async () => {
        take(await consumer.pull({ wait: '1s' }));
        return pulled.size === 6;
      });
      expect(await consumer.pull()).toEqual([]);
      expect([...pulled.values()].map((each) => each.map(({ attempt }) => attempt))).toEqual(
        Array(6).fill([1]),
      );
    },
  );
});
