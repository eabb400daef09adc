import { request } from 'node:http';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { CONSUME_KEY } from '../support/app.ts';
import { GroupClient } from '../support/group-client.ts';
import { metricsOf } from '../support/metrics.ts';
import { openSession, untilBlocked } from '../support/session.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const { database, replica } = sharedReplica();

let client: GroupClient;
beforeAll(() => {
  client = new GroupClient(replica);
});

/** As retention does. */
async function removeBefore(topic: string, earliest: number): Promise<void> {
  await database.query(
    `WITH topic AS (SELECT number FROM topic WHERE name = $1),
          removed AS (DELETE FROM topic_entry WHERE topic = (SELECT number FROM topic) AND "offset" < $2)
     UPDATE topic_partition SET earliest = $2 WHERE topic = (SELECT number FROM topic)`,
    [topic, earliest],
  );
}
const skippedBy = async (group: string) =>
  (await metricsOf(replica))(`group_messages_skipped_total{group="${group}"}`);

describe('offsets that retention has removed', () => {
  it.each([
    ['with messages after them', 4, [{ from: 4, to: 9, skipped: { from: 0, to: 3 } }]],
    ['at the end of the log', 10, [{ from: 10, to: 9, count: 0, skipped: { from: 0, to: 9 } }]],
  ])(
    'are reported until the member asks for what comes after them: %s',
    async (_where, earliest, batches) => {
      const { topic, group } = await client.create();
      await client.post(topic, 10);
      await removeBefore(topic, earliest);
      const member = await client.join(group);
      const { assigned } = await client.poll(group, member, { max: 0 });
      const next = (offset: number) => ({ next: [{ ...placeOf(assigned[0]!), next: offset }] });
      for (let time = 0; time < 2; time++)
        expect((await client.poll(group, member, next(0))).batches).toMatchObject(batches);
      const [again] = (await client.poll(group, member, next(earliest))).batches;
      expect(again?.skipped).toBeUndefined();
      expect(await skippedBy(group)).toBe(earliest);
    },
  );

  it('are not what a member has committed itself', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 10);
    const member = await client.join(group);
    const [batch] = (await client.poll(group, member, { max: 6 })).batches;
    await client.commit(group, member, batch!, 5);
    await removeBefore(topic, 3);
    const next = [{ ...placeOf(batch!), next: 0 }];
    const [rest] = (await client.poll(group, member, { next })).batches;
    expect(rest).toMatchObject({ from: 6, to: 9 });
    expect(rest!.skipped).toBeUndefined();
  });

  it('count as skipped also if the client has hung up', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 10);
    await removeBefore(topic, 4);
    const member = await client.join(group);
    const session = await openSession(database);
    await session.query('BEGIN');
    await session.query(`SELECT FROM group_cursor WHERE owner = '${member}' FOR UPDATE`);
    const connections = await connectionCount();
    const poll = request(`${replica.url}/v1/groups/${group}/poll`, {
      method: 'POST',
      agent: false,
      headers: { 'content-type': 'application/json', authorization: `Bearer ${CONSUME_KEY}` },
    });
    poll.on('error', () => undefined);
    poll.end(JSON.stringify({ member }));
    await untilBlocked(database);
    poll.destroy();
    await until(async () => (await connectionCount()) <= connections);
    await session.query('COMMIT');
    await session.close();
    await until(async () => (await skippedBy(group)) === 4);
    expect((await client.poll(group, member)).batches[0]).toMatchObject({ from: 4, to: 9 });
  });

  it('beyond what a former owner had do not stop the group', async () => {
    const { topic, group } = await client.create({ group: { takeover: 'skip' } });
    await client.post(topic, 10);
    const member = await client.join(group);
    // What a member had that died after the rest went to another one.
    await database.query('UPDATE group_cursor SET bound = 3 WHERE owner = $1', [member]);
    await removeBefore(topic, 8);
    const { batches } = await client.poll(group, member);
    expect(batches).toMatchObject([{ count: 0, skipped: { from: 0, to: 3 } }]);
  });
});

function placeOf({ topic, partition, fence }: { topic: string; partition: number; fence: number }) {
  return { topic, partition, fence };
}

function connectionCount(): Promise<number> {
  return new Promise((resolve, reject) => {
    replica.app.nest.getHttpServer().getConnections((error: Error | null, count: number) => {
      if (error) reject(error);
      else resolve(count);
    });
  });
}
