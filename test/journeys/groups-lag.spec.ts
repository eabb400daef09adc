import { beforeAll, describe, expect, it } from '@jest/globals';
import { Retention } from '../../src/upkeep/retention/retention.ts';
import { GroupClient } from '../support/group-client.ts';
import { metricsOf } from '../support/metrics.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const { database, replica } = sharedReplica({ METRICS_INTERVAL: '100ms' });

let client: GroupClient;
beforeAll(() => {
  client = new GroupClient(replica);
});

const NAMES = ['lag_messages', 'lag_seconds', 'members', 'partitions_unowned', 'messages_expired'] as const;

/** The metrics of a group, once they match. */
async function metricsOnce(group: string, wanted: Partial<Record<(typeof NAMES)[number] | 'dead', number>>) {
  const read = async () => {
    const metric = await metricsOf(replica);
    const seen = {
      ...Object.fromEntries(NAMES.map((name) => [name, metric(`group_${name}{group="${group}"}`)])),
      dead: metric(`dead_letters{stage="group",group="${group}"}`),
    } as Record<string, number>;
    return Object.entries(wanted).every(([name, value]) => seen[name] === value) ? seen : undefined;
  };
  return (await until(read))!;
}

/** As /v1/backlog shows it, which may be a second old. */
async function backlogOnce(group: string, wanted: Record<string, number>) {
  await until(async () => {
    const { groups } = await client.expect(200, 'GET', '/v1/backlog');
    const seen = groups.find(({ name }: { name: string }) => name === group) ?? {};
    return Object.entries(wanted).every(([name, value]) => seen[name] === value);
  });
}

/** The list counts in the database what the view of one group adds up. */
async function expectListed(group: string): Promise<void> {
  const { items } = await client.expect(200, 'GET', '/v1/groups?limit=500');
  const { lag, lagSeconds, members } = items.find(({ name }: { name: string }) => name === group);
  const one = await client.expect(200, 'GET', `/v1/groups/${group}`);
  expect({ lag, members }).toEqual({
    lag: one.lag,
    members: one.members.filter(({ alive }: { alive: boolean }) => alive).length,
  });
  expect(Math.sign(one.lagSeconds - lagSeconds)).toBe(one.lagSeconds === 0 ? 0 : 1);
}

const numberOf = (topic: string) => `(SELECT number FROM topic WHERE name = '${topic}')`;

describe('the lag of a group', () => {
  it('A6 E10 is measured: messages that are not committed, and the age of the oldest', async () => {
    const { topic, group } = await client.create({ topic: { partitions: 4 } });
    const other = `${group}-2`;
    await client.expect(201, 'PUT', `/v1/groups/${other}`, { topics: [topic], start: 'latest' });
    await client.post(topic, 40);
    await database.query(
      `UPDATE topic_entry SET at = now() - interval '100 seconds' WHERE topic = ${numberOf(topic)} AND partition = 2 AND "offset" = 1`,
    );
    const before = await metricsOnce(group, { lag_messages: 40, members: 0, partitions_unowned: 4 });
    expect(before.lag_seconds).toBeGreaterThan(0);
    expect(before.lag_seconds).toBeLessThan(100);
    await backlogOnce(group, { lag: 40, members: 0, unownedPartitions: 4, expired: 0, deadLetters: 0 });
    await expectListed(group);

    const member = await client.join(group);
    const { batches } = await client.poll(group, member);
    await metricsOnce(group, { lag_messages: 40, members: 1, partitions_unowned: 0 });
    const second = batches.find(({ partition }) => partition === 2)!;
    await client.commit(group, member, second, 0);
    const old = await metricsOnce(group, { lag_messages: 39 });
    expect(old.lag_seconds).toBeGreaterThanOrEqual(100);
    await expectListed(group);
    for (const batch of batches) await client.commit(group, member, batch, batch.to);
    await metricsOnce(group, { lag_messages: 0, lag_seconds: 0, members: 1, partitions_unowned: 0 });
    await backlogOnce(group, { lag: 0, lagSeconds: 0, members: 1, unownedPartitions: 0 });
    await expectListed(group);
    await metricsOnce(other, { lag_messages: 40 });
    expect((await metricsOf(replica))(`topic_messages{topic="${topic}"}`)).toBe(40);
  });

  it('A6 reports unread partitions: without an owner, or with one that is silent', async () => {
    const { topic, group } = await client.create({ topic: { partitions: 2 }, group: { session: '3s' } });
    const member = await client.join(group);
    await client.post(topic, 10);
    await metricsOnce(group, { members: 0, partitions_unowned: 2, lag_messages: 10 });
    // Nobody has taken its partitions, so it continues as if it had not been silent.
    const { batches } = await client.poll(group, member);
    for (const batch of batches) await client.commit(group, member, batch, batch.to);
    await metricsOnce(group, { partitions_unowned: 0, lag_messages: 0 });
  });

  it('E10 counts dead letters, and what retention removed before the group got it', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 10);
    await client.reject(group, 3);
    await metricsOnce(group, { dead: 3, lag_messages: 7, messages_expired: 0 });
    await database.query(
      `UPDATE topic_entry SET at = now() - interval '8 days' WHERE topic = ${numberOf(topic)} AND "offset" < 5`,
    );
    await replica.app.nest.get(Retention).sweep();
    await metricsOnce(group, { dead: 3, lag_messages: 5, messages_expired: 2 });
    await backlogOnce(group, { deadLetters: 3, lag: 5, expired: 2 });
    const member = await client.join(group);
    const { batches } = await client.poll(group, member);
    expect(batches).toMatchObject([{ skipped: { from: 3, to: 4 } }]);
    await metricsOnce(group, { lag_messages: 5, messages_expired: 0 });
    expect((await metricsOf(replica))(`topic_messages{topic="${group}.dead"}`)).toBe(3);
  });

  it('is that of what members have, too, when retention has removed it', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 5);
    const member = await client.join(group);
    const { batches } = await client.poll(group, member, { max: 2 });
    await database.query(
      `UPDATE topic_entry SET at = now() - interval '8 days' WHERE topic = ${numberOf(topic)}`,
    );
    await replica.app.nest.get(Retention).sweep();
    const { partitions } = await client.expect(200, 'GET', `/v1/groups/${group}`);
    expect(partitions).toMatchObject([{ lag: 2, expired: 3 }]);
    await metricsOnce(group, { lag_messages: 2, messages_expired: 3 });
    expect(await client.commit(group, member, batches[0]!, 1)).toBe('committed');
    await metricsOnce(group, { lag_messages: 0 });
  });
});
