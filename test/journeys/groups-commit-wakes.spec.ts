import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { MEMBER_WAKEUPS, memberIdOf } from '../../src/groups/group.ts';
import { Wakeups } from '../../src/lanes/wakeups.ts';
import { CONSUME_KEY, startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { type Batch, GroupClient, type Polled } from '../support/group-client.ts';
import { until } from '../support/until.ts';

let database: TestDatabase;
const replicas: TestApp[] = [];
let client: GroupClient;

beforeAll(async () => {
  database = await createDatabase();
  // The last one hears no notifications.
  for (const DATABASE_POOLER of ['none', 'none', 'transaction'])
    replicas.push(await startApp(database, { DATABASE_POOLER }));
  client = new GroupClient(replicas[0]!);
});
afterAll(async () => {
  for (const replica of replicas) await replica.close();
  await database.drop();
});

/** A poll at a replica that waits for much longer than the test; resolves when it waits. */
async function openPoll(index: number, group: string, member: string) {
  const before = await pollOf(member);
  const path = `/v1/groups/${group}/poll`;
  const body = { member, wait: '50s', next: [] };
  const polled = replicas[index]!.call('POST', path, { body, key: CONSUME_KEY });
  await until(async () => (await pollOf(member)) !== before);
  return {
    async batch(): Promise<Batch> {
      const timeout = AbortSignal.timeout(25_000);
      const late = new Promise<never>((_, reject) => {
        timeout.addEventListener('abort', () => reject(new Error('the poll was not woken')));
      });
      const { body } = await Promise.race([polled, late]);
      return (body as Polled).batches[0]!;
    },
  };
}

async function pollOf(member: string): Promise<string | null> {
  const [row] = await database.query<{ poll: string | null }>('SELECT poll FROM group_member WHERE id = $1', [
    member,
  ]);
  return row!.poll;
}

/** By a commit, or by a heartbeat that commits. */
const COMMITS = {
  commit: (group: string, member: string, batch: Batch) => client.commit(group, member, batch, batch.to),
  heartbeat: async (group: string, member: string, { topic, partition, fence, to }: Batch) => {
    const commit = [{ topic, partition, fence, offset: to }];
    const { committed } = await client.poll(group, member, { max: 0, commit });
    return committed[0]!.outcome;
  },
  'commit with a rejection': (group: string, member: string, batch: Batch) =>
    client.commit(group, member, batch, batch.to, [{ offset: batch.from, reason: 'no' }]),
};

describe('a poll that waits', () => {
  const cases = (Object.keys(COMMITS) as (keyof typeof COMMITS)[]).flatMap((how) =>
    [0, 1, 2].map((index) => [how, index] as const),
  );

  it.each(cases)(
    'because of maxInFlight gets the next messages after a %s, at replica %i',
    async (how, index) => {
      const { topic, group } = await client.create({ group: { maxInFlight: 10 } });
      await client.post(topic, 30);
      const member = await client.join(group);
      const first = (await client.poll(group, member)).batches[0]!;
      expect([first.from, first.to]).toEqual([0, 9]);
      const waiting = await openPoll(index, group, member);
      expect(await COMMITS[how](group, member, first)).toBe('committed');
      expect(await waiting.batch()).toMatchObject({ from: 10, to: 19 });
    },
  );

  it.each(cases)(
    'for a message that is handed out alone gets the next one after a %s, at replica %i',
    async (how, index) => {
      const { topic, group } = await client.create();
      await client.post(topic, 5);
      const member = await client.join(group);
      await database.query(`UPDATE group_cursor SET deaths = 2, retry_to = 4 WHERE owner = $1`, [member]);
      const first = (await client.poll(group, member)).batches[0]!;
      expect([first.from, first.to]).toEqual([0, 0]);
      const waiting = await openPoll(index, group, member);
      expect(await COMMITS[how](group, member, first)).toBe('committed');
      expect(await waiting.batch()).toMatchObject({ from: 1, to: 1 });
    },
  );

  it.each(Object.keys(COMMITS) as (keyof typeof COMMITS)[])(
    'is announced to all replicas by a %s, and only if it is of use',
    async (how) => {
      const heard: number[][] = [[], []];
      for (const [index, numbers] of heard.entries())
        replicas[index]!.app.nest.get(Wakeups).on(MEMBER_WAKEUPS, (members) => void numbers.push(...members));
      const { topic, group } = await client.create({ group: { maxInFlight: 10 } });
      await client.post(topic, 30);
      const member = await client.join(group);
      const [few] = (await client.poll(group, member, { max: 9 })).batches;
      await COMMITS[how](group, member, few!);
      const [full] = (await client.poll(group, member)).batches;
      await COMMITS[how](group, member, full!);
      await until(() => heard.every((numbers) => numbers.includes(memberIdOf(member))));
      expect(heard[0]!.filter((one) => one === memberIdOf(member))).toHaveLength(1);
    },
  );
});
