import { beforeAll, describe, expect, it } from '@jest/globals';
import { GroupClient } from '../support/group-client.ts';
import { sharedReplica } from '../support/shared-replica.ts';

const { replica } = sharedReplica();

let client: GroupClient;
beforeAll(() => {
  client = new GroupClient(replica);
});

/** The status in the group of each message of the topic's first partition. */
async function statuses(topic: string, group: string, partition = 0): Promise<string[]> {
  const path = `/v1/topics/${topic}/messages?partition=${partition}&from=0`;
  const { messages } = await client.expect(200, 'GET', path);
  return Promise.all(
    messages.map(async ({ id }: { id: string }) => {
      const message = await client.expect(200, 'GET', `/v1/messages/${id}`);
      const why = await client.expect(200, 'GET', `/v1/messages/${id}/why`);
      const of = ({ groups }: { groups: { group: string; status: string }[] }) =>
        groups.filter((one) => one.group === group).map(({ status }) => status);
      expect(of(why)).toEqual(of(message));
      return of(message).join();
    }),
  );
}
const times = (count: number, status: string) => Array<string>(count).fill(status);

describe('the status of a message in a group', () => {
  it('is that of the offsets of the group', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 6);
    const member = await client.join(group);
    const [batch] = (await client.poll(group, member, { max: 4 })).batches;
    await client.commit(group, member, batch!, 1);
    expect(await statuses(topic, group)).toEqual([
      ...times(2, 'processed'),
      ...times(2, 'processing'),
      ...times(2, 'pending'),
    ]);
  });

  it('stays processed after a seek to a later message', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 6);
    await client.reject(group, 1);
    await client.expect(200, 'POST', `/v1/groups/${group}/seek`, { to: { offset: 4 } });
    expect(await statuses(topic, group)).toEqual([
      'rejected',
      ...times(3, 'processed'),
      ...times(2, 'pending'),
    ]);
    await client.expect(200, 'POST', `/v1/groups/${group}/seek`, { to: { offset: 2 } });
    expect(await statuses(topic, group)).toEqual(['rejected', 'processed', ...times(4, 'pending')]);
  });

  it('stays processed after a takeover that skips what is in flight', async () => {
    const { topic, group } = await client.create({
      topic: { partitions: 2 },
      group: { takeover: 'skip' },
    });
    await client.post(topic, 40);
    const one = await client.join(group);
    const { batches } = await client.poll(group, one, { max: 20 });
    for (const batch of batches) await client.commit(group, one, batch, 2);
    const two = await client.join(group);
    const [beyond] = (await client.poll(group, two, { max: 2 })).batches;
    const held = batches.find(({ partition }) => partition === beyond!.partition)!;
    const now = () => statuses(topic, group, beyond!.partition);
    expect((await now()).slice(0, beyond!.to + 2)).toEqual([
      ...times(3, 'processed'),
      ...times(held.to - 2 + 2, 'processing'),
      'pending',
    ]);
    await client.commit(group, one, held, held.to);
    await client.commit(group, two, beyond!, beyond!.to);
    expect((await now()).slice(0, beyond!.to + 2)).toEqual([
      ...times(beyond!.to + 1, 'processed'),
      'pending',
    ]);
  });
});
