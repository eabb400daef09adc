import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { CONSUME_KEY } from '../support/app.ts';
import { build } from '../support/built-service.ts';
import { onTerminal, sluiceCli } from '../support/sluice-cli.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

let cluster: TestCluster;
let number = 0;
const { start, sluice } = sluiceCli(() => cluster.replica.url);

beforeAll(async () => {
  build();
  cluster = await TestCluster.open({ INBOX_UNHANDLED: 'finish' });
});
afterAll(() => cluster.close());

async function createTopic(partitions = 2): Promise<string> {
  const topic = `orders-${++number}`;
  expect((await cluster.call('PUT', `/v1/topics/${topic}`, { partitions })).status).toBe(201);
  return topic;
}

async function createGroup(topic: string, definition: object = {}): Promise<string> {
  const group = `billing-${++number}`;
  const { status } = await cluster.call('PUT', `/v1/groups/${group}`, { topics: [topic], ...definition });
  expect(status).toBe(201);
  return group;
}

/** Posts messages to a topic, and waits until it has them. */
async function post(topic: string, ...payloads: string[]): Promise<void> {
  const end = async () => {
    const { partitions } = (await cluster.call('GET', `/v1/topics/${topic}`)).body;
    return partitions.reduce((sum: number, { next }: { next: number }) => sum + next, 0);
  };
  const before = await end();
  for (const [n, payload] of payloads.entries()) {
    const body = `{"key":"k-${n}","payload":${payload}}`;
    expect((await cluster.replica.call('POST', `/v1/topics/${topic}/messages`, { body })).status).toBe(202);
  }
  await until(async () => (await end()) === before + payloads.length);
}

async function join(group: string, name: string) {
  return (await cluster.call('POST', `/v1/groups/${group}/members`, { name })).body;
}

const poll = async (group: string, member: string) =>
  (await cluster.call('POST', `/v1/groups/${group}/poll`, { member })).body;

async function lagOf(group: string): Promise<number> {
  return (await cluster.call('GET', `/v1/groups/${group}`)).body.lag;
}

/** The lines that a command printed so far. */
const linesOf = (output: string) => output.split('\n').slice(0, -1);

describe('sluice topics', () => {
  it('lists topics with their partitions, types, messages kept and retention', async () => {
    const { out: none } = await sluice(['topics']);
    expect(none).toBe('no topics\n');
    await cluster.call('PUT', '/v1/topics/shown', {
      partitions: 3,
      types: ['shown', 'order.*'],
      retention: '2d',
    });
    await post('shown', '1', '2');
    const { code, out } = await sluice(['topics']);
    expect([code, out]).toEqual([
      0,
      'TOPIC  PARTITIONS  TYPES           MESSAGES  RETENTION\n' +
        'shown           3  shown, order.*         2         2d\n',
    ]);
    const { json } = await sluice(['topics', '--json']);
    expect(json.items).toMatchObject([{ name: 'shown', partitions: [{ earliest: 0 }, {}, {}] }]);
    expect((await sluice(['topics', 'shown'])).code).toBe(2);
    await cluster.call('DELETE', '/v1/topics/shown');
  });
});

describe('sluice groups', () => {
  it('shows how far groups are behind, and the members and partitions of one', async () => {
    expect((await sluice(['groups'])).out).toBe('no groups\n');
    const topic = await createTopic();
    const group = await createGroup(topic);
    await post(topic, '1', '2', '3');
    const { member } = await join(group, 'worker-a');
    await poll(group, member);
    const all = await sluice(['groups']);
    expect([all.code, all.out]).toEqual([0, expect.stringMatching(/^GROUP +TOPICS +MEMBERS +LAG +BEHIND\n/)]);
    expect(all.out).toMatch(new RegExp(`^${group} +${topic} +1 +3 +\\d+s$`, 'm'));
    const one = await sluice(['groups', group]);
    expect(one.out).toMatch(new RegExp(`^${group}  reads ${topic}; lag 3, \\d+s behind; session 30s\n`));
    expect(one.out).toMatch(/^worker-a \([0-9a-f]{8}\) +alive +\S+Z +2 +3$/m);
    expect(one.out).toMatch(
      new RegExp(`^${topic}/0 +owned +worker-a .* Its owner has \\d messages? in flight\\.$`, 'm'),
    );
    expect((await sluice(['groups', group, '--json'])).json).toMatchObject({ name: group, lag: 3 });
    const unknown = await sluice(['groups', 'nobody']);
    expect([unknown.code, unknown.aside]).toEqual([1, expect.stringContaining('No group has this name')]);
  });

  it('is refreshed until Ctrl-C', async () => {
    const group = await createGroup(await createTopic());
    for (const given of [['groups'], ['groups', group]]) {
      const live = start([...given, '--follow', '--every', '0.1', '--json']);
      await until(() => linesOf(live.output()).length > 2);
      live.child.kill('SIGINT');
      expect((await live.ended).code).toBe(0);
    }
    expect((await sluice(['groups', '--follow', '--every', '0'])).code).toBe(2);
  });
});

describe('sluice consume', () => {
  it('prints what comes from now on, exactly as it was posted', async () => {
    const topic = await createTopic();
    await post(topic, '"before"');
    const reader = start(['consume', topic, '--count', '2', '--json']);
    const payloads = ['{ "exact":1.10,"list":[1,2]}', '"],}"'];
    // It starts at the end that it finds: posts go on until it has started.
    await until(async () => {
      await post(topic, ...payloads);
      return linesOf(reader.output()).length > 0;
    });
    const { code, out } = await reader.ended;
    expect(code).toBe(0);
    for (const line of linesOf(out)) {
      expect(JSON.parse(line)).toMatchObject({
        topic,
        partition: expect.any(Number),
        offset: expect.any(Number),
      });
      expect(payloads).toContain(/"payload":(.*)}$/.exec(line)![1]);
    }
    expect(out).not.toContain('before');
  });

  it('prints from an offset on, of one partition or all, and ends at the end if it need not wait', async () => {
    const topic = await createTopic(2);
    await post(topic, ...Array.from({ length: 20 }, (_, n) => String(n)));
    const all = await sluice(['consume', topic, '--from', 'earliest', '--no-wait', '--json']);
    expect([all.code, linesOf(all.out).length]).toEqual([0, 20]);
    const { partitions } = (await cluster.call('GET', `/v1/topics/${topic}`)).body;
    const one = ['consume', topic, '--partition', '1', '--no-wait', '--from'];
    const some = await sluice([...one, '2']);
    expect(linesOf(some.out)).toHaveLength(partitions[1].next - 2);
    expect(some.out).toMatch(
      new RegExp(`^\\d\\d:\\d\\d:\\d\\d\\.\\d{3}  ${topic}  1  ${topic}  key=k-\\d+  id=\\S+  \\d+\n`),
    );
    expect(linesOf((await sluice([...one, 'earliest', '--count', '3'])).out)).toHaveLength(3);
    expect((await sluice([...one, 'latest'])).out).toBe('');
  });

  it('reports offsets that are no longer kept', async () => {
    const topic = await createTopic(1);
    await post(topic, '1', '2', '3');
    await cluster.database.query(
      'DELETE FROM topic_entry WHERE "offset" < 2 AND topic = (SELECT number FROM topic WHERE name = $1)',
      [topic],
    );
    await cluster.database.query(
      'UPDATE topic_partition SET earliest = 2 WHERE topic = (SELECT number FROM topic WHERE name = $1)',
      [topic],
    );
    const { out, aside } = await sluice(['consume', topic, '--from', '0', '--no-wait']);
    expect([linesOf(out).length, aside]).toEqual([
      1,
      `sluice: ${topic}/0: offsets 0 to 1 are no longer kept\n`,
    ]);
  });

  it('joins a group, commits what it printed, and leaves on Ctrl-C', async () => {
    const topic = await createTopic();
    const group = await createGroup(topic);
    await post(topic, '1.10', '2', '3');
    const some = await sluice(['consume', topic, '--group', group, '--count', '2', '--json']);
    expect([some.code, linesOf(some.out).length]).toEqual([0, 2]);
    expect(await lagOf(group)).toBe(1);
    const member = start(['consume', topic, '--group', group, '--json'], { SLUICE_API_KEY: CONSUME_KEY });
    await until(() => linesOf(member.output()).length === 1);
    await post(topic, '4');
    await until(() => linesOf(member.output()).length === 2);
    member.child.kill('SIGINT');
    const { code, out, aside } = await member.ended;
    expect([code, aside]).toEqual([0, '']);
    const printed = [...linesOf(some.out), ...linesOf(out)].map((line) => /"payload":(.*)}$/.exec(line)![1]);
    expect(printed.sort()).toEqual(['1.10', '2', '3', '4']);
    const { body } = await cluster.call('GET', `/v1/groups/${group}`);
    expect([body.lag, body.members]).toEqual([0, []]);
  });

  it('joins again when its session was over, and says why it gets nothing', async () => {
    const topic = await createTopic(1);
    const group = await createGroup(topic);
    const member = start(['consume', topic, '--group', group, '--json']);
    await until(async () => (await cluster.call('GET', `/v1/groups/${group}`)).body.members.length === 1);
    const second = start(['consume', topic, '--group', group]);
    await until(() => second.aside().includes('more members than partitions'));
    await cluster.database.query('DELETE FROM group_member');
    await cluster.database.query('UPDATE group_cursor SET owner = NULL');
    await post(topic, '1');
    await until(() => member.aside().includes('joining again'));
    await until(() => (member.output() + second.output()).includes(topic));
    for (const one of [member, second]) {
      one.child.kill('SIGINT');
      expect((await one.ended).code).toBe(0);
    }
  });

  it('goes on after an outage', async () => {
    const topic = await createTopic(1);
    const group = await createGroup(topic);
    let isAway = false;
    const proxy = await startProxy(() => isAway);
    const readers = [
      ['--from', 'earliest'],
      ['--group', group],
    ].map((more) => start(['consume', topic, ...more, '--json'], { SLUICE_URL: proxy.url }));
    try {
      await post(topic, '1');
      await until(() => readers.every((reader) => linesOf(reader.output()).length === 1));
      isAway = true;
      proxy.server.closeAllConnections();
      await until(() => readers.every((reader) => reader.aside().includes('retrying')));
      isAway = false;
      await post(topic, '2');
      await until(() => readers.every((reader) => linesOf(reader.output()).length === 2));
      for (const reader of readers) {
        reader.child.kill('SIGINT');
        expect((await reader.ended).code).toBe(0);
      }
    } finally {
      for (const reader of readers) reader.child.kill('SIGKILL');
      proxy.server.close();
    }
  });

  it('gets again what a proxy lost', async () => {
    const topic = await createTopic(1);
    const group = await createGroup(topic);
    await post(topic, '1', '2', '3');
    let lost = 0;
    const proxy = await startProxy((response) => response.includes('"payload"') && ++lost === 1);
    const some = ['consume', topic, '--group', group, '--count', '3', '--json'];
    const { code, out } = await sluice(some, { SLUICE_URL: proxy.url });
    proxy.server.close();
    expect([code, lost]).toEqual([0, 2]);
    expect(linesOf(out).map((line) => JSON.parse(line).payload)).toEqual([1, 2, 3]);
  });

  it('goes on and notes it when a proxy lost what says that messages are no longer kept', async () => {
    const topic = await createTopic(1);
    const group = await createGroup(topic);
    await post(topic, '1', '2', '3');
    await cluster.database.query(
      `UPDATE topic_partition SET earliest = 2 WHERE topic = (SELECT number FROM topic WHERE name = $1)`,
      [topic],
    );
    let lost = 0;
    const proxy = await startProxy((response) => response.includes('"skipped"') && ++lost === 1);
    const some = ['consume', topic, '--group', group, '--count', '1', '--json'];
    const { code, out, aside } = await sluice(some, { SLUICE_URL: proxy.url });
    proxy.server.close();
    expect([code, lost]).toEqual([0, 2]);
    expect(linesOf(out).map((line) => JSON.parse(line).payload)).toEqual([3]);
    expect(aside.split(`${topic}/0: offsets 0 to 1 are no longer kept`)).toHaveLength(2);
  });

  /** It completes every request, and cuts the connection of those whose response it loses. */
  async function startProxy(loses: (response: string) => boolean) {
    const server = createServer(async (request, response) => {
      if (loses('')) return void request.socket.destroy();
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk);
      const body = chunks.length ? { body: Buffer.concat(chunks).toString() } : {};
      const { status, text } = await cluster.replica.call(request.method!, request.url!, body);
      if (loses(text)) request.socket.destroy();
      else response.writeHead(status).end(text);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  }
});

describe('sluice seek', () => {
  async function committedGroup(): Promise<{ topic: string; group: string }> {
    const topic = await createTopic(2);
    const group = await createGroup(topic);
    await post(topic, ...Array.from({ length: 10 }, (_, n) => String(n)));
    await sluice(['consume', topic, '--group', group, '--count', '10']);
    expect(await lagOf(group)).toBe(0);
    return { topic, group };
  }

  it('shows per partition from where to where, and moves only if it is told to', async () => {
    const { topic, group } = await committedGroup();
    const dry = await sluice(['seek', group, '--to', 'earliest', '--dry-run']);
    expect([dry.code, dry.out]).toEqual([0, expect.stringMatching(new RegExp(`^${topic}/0 +\\d+ +0$`, 'm'))]);
    expect(dry.out).toContain('10 messages would be read again, 0 skipped\n');
    const refused = await sluice(['seek', group, '--to', 'earliest']);
    expect([refused.code, refused.aside]).toEqual([2, expect.stringContaining('--yes is required')]);
    expect(await lagOf(group)).toBe(0);
    const done = await sluice(['seek', group, '--to', 'earliest', '--yes', '--json']);
    expect([done.code, done.json]).toEqual([
      0,
      expect.objectContaining({ again: 10, skipped: 0, dryRun: false }),
    ]);
    expect(await lagOf(group)).toBe(10);
  });

  it('takes an offset, a time, a topic and a partition', async () => {
    const { topic, group } = await committedGroup();
    const to = async (...given: string[]) =>
      (await sluice(['seek', group, '--yes', '--json', '--to', ...given])).json.partitions;
    expect(await to('1', '--topic', topic, '--partition', '1')).toMatchObject([{ partition: 1, to: 1 }]);
    expect(await to('2020-01-01T00:00:00Z')).toMatchObject([{ to: 0 }, { to: 0 }]);
    const [first, second] = await to('latest');
    expect(first.to + second.to).toBe(10);
    const bad = await sluice(['seek', group, '--to', 'yesterday', '--yes']);
    expect([bad.code, bad.aside]).toEqual([1, expect.stringContaining('/to must be')]);
  });

  onTerminal('asks on a terminal, and changes nothing without a yes', async () => {
    const { group } = await committedGroup();
    for (const [answer, lag, code] of [
      ['n', 0, 1],
      ['y', 10, 0],
    ] as const) {
      const asking = start(['seek', group, '--to', 'earliest'], {}, 'terminal');
      await until(() => asking.output().includes(`Move the offsets of ${group}? [y/N] `));
      expect(asking.output()).toContain('10 messages would be read again');
      asking.child.stdin.write(`${answer}\r`);
      const ended = await asking.ended;
      asking.child.stdin.end();
      expect([ended.code, await lagOf(group)]).toEqual([code, lag]);
    }
  });

  it('is refused while members are alive', async () => {
    const { group } = await committedGroup();
    await join(group, 'alive');
    const { code, aside } = await sluice(['seek', group, '--to', 'earliest', '--yes']);
    expect([code, aside]).toEqual([1, expect.stringContaining('1 live members')]);
  });
});

describe('sluice dead-letters', () => {
  it('lists what a group rejected, and revives it for that group', async () => {
    const topic = await createTopic(1);
    const group = await createGroup(topic);
    await post(topic, '1', '2');
    const { member } = await join(group, 'rejecting');
    const { batches } = await poll(group, member);
    const { partition, fence, to: offset } = batches[0];
    const rejected = [0, 1].map((one) => ({ offset: one, reason: `no customer ${one}` }));
    const offsets = [{ topic, partition, fence, offset, rejected }];
    expect((await cluster.call('POST', `/v1/groups/${group}/commit`, { member, offsets })).status).toBe(200);
    await cluster.call('DELETE', `/v1/groups/${group}/members/${member}`);
    const { out } = await sluice(['dead-letters', 'list', '--group', group]);
    expect(out).toMatch(new RegExp(`^\\S+ +group +${group} +${topic} .* no customer 1$`, 'm'));
    expect((await sluice(['dead-letters', 'groups', '--stage', 'group'])).out).toMatch(
      new RegExp(`^ +2 +group +${group} +no customer <n>$`, 'm'),
    );
    // It waits for the result: consumers have to process what was revived.
    const reviving = start(['dead-letters', 'revive', '--group', group]);
    const again = await sluice(['consume', topic, '--group', group, '--count', '2', '--json']);
    expect(linesOf(again.out).map((line) => JSON.parse(line).payload)).toEqual([1, 2]);
    const { code, out: revived } = await reviving.ended;
    expect([code, revived]).toEqual([0, '2 matched: 2 revived, 0 dead again\n']);
  });
});

describe('sluice pull', () => {
  async function postTo(queue: string, ...payloads: string[]): Promise<void> {
    for (const [n, payload] of payloads.entries()) {
      const body = `{"type":"${queue}/x","key":"k-${n}","payload":${payload}}`;
      expect((await cluster.replica.call('POST', '/v1/messages', { body })).status).toBe(202);
    }
  }

  it('prints messages of a queue exactly as they were posted, and acknowledges them', async () => {
    await cluster.put('work', { mode: 'pull' });
    const payloads = ['{ "exact":1.10}', '"],}"', '3'];
    await postTo('work', ...payloads);
    await until(async () => (await cluster.counts('work')).pending === 3);
    const shown = async () => (await sluice(['status', '--once'])).out;
    await until(async () => /^work +active +3 +0 +\d+s +0 +0$/m.test(await shown()));
    const some = await sluice(['pull', 'work', '--count', '3', '--json']);
    expect(some.code).toBe(0);
    expect(
      linesOf(some.out)
        .map((line) => /"payload":(.*)}$/.exec(line)![1])
        .sort(),
    ).toEqual([...payloads].sort());
    expect(await cluster.counts('work')).toEqual({ finished: 3 });
    const none = await sluice(['pull', 'work', '--no-wait']);
    expect([none.code, none.out]).toEqual([0, '']);
  });

  it('waits for messages until Ctrl-C', async () => {
    await cluster.put('later', { mode: 'pull' });
    const consumer = start(['pull', 'later'], { SLUICE_API_KEY: CONSUME_KEY });
    await postTo('later', '1');
    expect(await consumer.line()).toMatch(/^\d\d:\d\d:\d\d\.\d{3} {2}later\/x {2}key=k-0 {2}id=\S+ {2}1$/);
    await until(async () => (await cluster.counts('later')).finished === 1);
    consumer.child.kill('SIGINT');
    const { code, aside } = await consumer.ended;
    expect([code, aside]).toEqual([0, '']);
  });

  it('is refused for a listener that receives webhooks, or that is not there', async () => {
    await cluster.listen('hooked');
    const hooked = await sluice(['pull', 'hooked']);
    expect([hooked.code, hooked.aside]).toEqual([1, expect.stringContaining('receives webhooks')]);
    expect((await sluice(['pull', 'nobody'])).code).toBe(1);
  });
});

describe('a command of groups', () => {
  it.each<[given: string[], why: string]>([
    [['consume'], 'give a topic'],
    [['consume', 't', '--from', 'soon'], '--from must be'],
    [['consume', 't', '--count', '0'], '--count must be'],
    [['consume', 't', '--group', 'g', '--from', '3'], 'has offsets of its own'],
    [['consume', 't', '--group', 'g', '--no-wait'], '--no-wait is not for a group'],
    [['groups', 'a', 'b'], 'give one group'],
    [['seek', 'g'], 'give a group and where to'],
    [['seek', 'g', '--to', '1', '--partition', 'x', '--yes'], '--partition must be'],
    [['pull'], 'give a listener'],
  ])('is refused with 2 if it is %j', async (given, why) => {
    const { code, aside } = await sluice(given);
    expect([code, aside]).toEqual([2, expect.stringContaining(why)]);
  });

  it('is refused if the group reads another topic, or the topic has no such partition', async () => {
    const topic = await createTopic(2);
    const group = await createGroup(topic);
    const other = await sluice(['consume', 'other', '--group', group]);
    expect([other.code, other.aside]).toEqual([
      2,
      expect.stringContaining(`does not read other, but ${topic}`),
    ]);
    const beyond = await sluice(['consume', topic, '--partition', '2', '--no-wait']);
    expect([beyond.code, beyond.aside]).toEqual([2, expect.stringContaining('the partitions 0 to 1')]);
    expect((await sluice(['consume', 'nowhere'])).code).toBe(1);
    expect((await sluice(['consume', topic], { SLUICE_URL: 'http://127.0.0.1:2' })).code).toBe(3);
    expect((await sluice(['pull', 'nobody'], { SLUICE_URL: 'http://127.0.0.1:2' })).code).toBe(3);
  });
});

describe('groups in sluice status and doctor', () => {
  it('are shown with their lag', async () => {
    const topic = await createTopic();
    const group = await createGroup(topic);
    await post(topic, '1', '2');
    const shown = async () => (await sluice(['status', '--once'])).out;
    const line = new RegExp(`^${group} +0 +2 +\\d+s +2 +0 +0$`, 'm');
    // The backlog may be a second old.
    await until(async () => line.test(await shown()));
    const { json } = await sluice(['status', '--once', '--json']);
    expect(json.groups).toContainEqual(expect.objectContaining({ name: group, lag: 2, members: 0 }));
  });

  it('are checked: no members, members that died, topics that nobody reads', async () => {
    const topic = await createTopic();
    const group = await createGroup(topic, { session: '1s' });
    const unread = await createTopic();
    await post(topic, '1', '2');
    await post(unread, '1');
    const found = async (check: string) => {
      const { code, json } = await sluice(['doctor', '--json']);
      expect(code).toBe(0);
      return json.findings
        .filter((one: { check: string }) => one.check === check)
        .map((one: { verdict: string; found: string; next: string }) => `${one.verdict}: ${one.found}`);
    };
    expect(await found(`group ${group}`)).toEqual([
      expect.stringMatching(/^warning: no members, 2 messages, \d+s behind$/),
    ]);
    expect(await found(`topic ${unread}`)).toEqual([
      expect.stringMatching(/^warning: no group reads it; 1 messages are kept for \d+d each$/),
    ]);
    expect(await found(`topic ${topic}`)).toEqual([]);
    const { member } = await join(group, 'worker-a');
    await poll(group, member);
    await until(async () => {
      const { members } = (await cluster.call('GET', `/v1/groups/${group}`)).body;
      return members[0]?.alive === false;
    });
    expect((await found(`group ${group}`))[0]).toBe('warning: members died: worker-a');
  });
});
