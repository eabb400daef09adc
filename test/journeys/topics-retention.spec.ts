import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Topics } from '../../src/topics/topics.ts';
import { Retention } from '../../src/upkeep/retention/retention.ts';
import { GroupClient } from '../support/group-client.ts';
import { closedGate, type StatementGate } from '../support/lanes.ts';
import { metricIncreases, metricsOf } from '../support/metrics.ts';
import { openSession, untilBlocked } from '../support/session.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const { database, replica } = sharedReplica({
  RETENTION_TOPICS: '7d',
  RETENTION_FINISHED: '7d',
  RETENTION_DEAD: '30d',
  RETENTION_DEAD_QUEUES: 'group/brief-readers=2d',
  RETENTION_TYPES: 'brief-inbox=1d,long-inbox=60d',
});

let client: GroupClient;
beforeAll(() => {
  client = new GroupClient(replica);
});

const sweep = () => replica.app.nest.get(Retention).sweep();
const numberOf = (topic: string) => `(SELECT max(number) FROM topic WHERE name = '${topic}')`;

/** As if the first messages of a topic, with offsets below `before`, had been written and applied this long ago. */
async function age(topic: string, age: string, before = 1_000_000): Promise<void> {
  const old = `now() - interval '${age}'`;
  const which = `topic = ${numberOf(topic)} AND "offset" < ${before}`;
  await database.query(`UPDATE topic_entry SET at = ${old} WHERE ${which}`);
  await database.query(
    `UPDATE inbox SET received_at = ${old}, settled_at = ${old}
     WHERE position IN (SELECT message FROM topic_entry WHERE ${which})`,
  );
}

async function browse(topic: string) {
  const { earliest, next, messages } = await client.expect(200, 'GET', `/v1/topics/${topic}/messages`);
  return { earliest, next, offsets: messages.map(({ offset }: { offset: number }) => offset) };
}

const lockMembers = `UPDATE group_member SET seen_at = clock_timestamp()`;
const stored = async (type: string) =>
  (await database.query(`SELECT FROM inbox WHERE type = $1`, [type])).length;

/** Entries whose message is gone: there must never be one. */
const dangling = () =>
  database.query(
    `SELECT topic.name, entry."offset" FROM topic_entry AS entry JOIN topic ON topic.number = entry.topic
     WHERE NOT EXISTS (SELECT FROM inbox WHERE inbox.position = entry.message)`,
  );

/** A gate in the first write of a kind to a table. */
async function gateAt(event: 'INSERT' | 'DELETE', table: string, when = 'true'): Promise<StatementGate> {
  const gate = await closedGate(database);
  await database.query(`
    CREATE OR REPLACE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM ${gate.sql}; RETURN COALESCE(NEW, OLD); END $$;
    CREATE TRIGGER gate BEFORE ${event} ON ${table} FOR EACH ROW WHEN (${when}) EXECUTE FUNCTION wait_at_gate()`);
  return gate;
}
afterEach(() => database.query('DROP FUNCTION IF EXISTS wait_at_gate CASCADE'));

describe('the retention of topics', () => {
  it('A10 removes messages from the head of each partition and moves the earliest offset', async () => {
    const { topic } = await client.create({ topic: { partitions: 2 } });
    await client.post(topic, 40);
    const before = await client.expect(200, 'GET', `/v1/topics/${topic}`);
    await age(topic, '8 days', 5);
    const [removed] = await metricIncreases(replica, ['retention_removed_total{stage="topics"}'], sweep);
    expect(removed).toBe(10);
    const after = await client.expect(200, 'GET', `/v1/topics/${topic}`);
    expect(after.partitions).toEqual(before.partitions.map((tail: object) => ({ ...tail, earliest: 5 })));
    expect((await browse(topic)).offsets[0]).toBe(5);
    expect(await stored(topic)).toBe(30);
  });

  it('A10 E6 has a duration for all topics, for one, for dead letters, and for those of one group', async () => {
    const usual = await client.create();
    const kept = await client.create({ topic: { retention: '20d' } });
    const brief = await client.create({ name: 'brief' });
    for (const { topic, group } of [usual, kept, brief]) {
      await client.post(topic, 3);
      await client.reject(group, 1);
      await age(topic, '8 days');
      await database.query(
        `UPDATE topic_entry SET at = now() - interval '8 days' WHERE topic = ${numberOf(`${group}.dead`)}`,
      );
    }
    await sweep();
    const left = async ({ topic, group }: typeof usual) => [
      (await browse(topic)).offsets.length,
      (await browse(`${group}.dead`)).offsets.length,
    ];
    expect([await left(usual), await left(kept), await left(brief)]).toEqual([
      [0, 1],
      [3, 1],
      [0, 0],
    ]);
    const shown = async (topic: string) => (await client.expect(200, 'GET', `/v1/topics/${topic}`)).retention;
    expect([await shown(usual.topic), await shown(kept.topic), await shown(`${brief.group}.dead`)]).toEqual([
      '7d',
      '20d',
      '2d',
    ]);
    // A rejection goes with the message it tells of.
    const rejections = await database.query<{ name: string }>(
      'SELECT topic.name FROM rejection JOIN topic ON topic.number = rejection.dead_topic',
    );
    expect(rejections.map(({ name }) => name)).toEqual([`${usual.group}.dead`, `${kept.group}.dead`]);
    expect(await dangling()).toEqual([]);
  });

  it('takes steps: what is more than one of them holds goes, too, and what comes meanwhile stays', async () => {
    const { topic } = await client.create();
    await client.post(topic, 1);
    await database.query(
      `INSERT INTO topic_entry (topic, partition, "offset", message, bytes)
       SELECT topic, 0, n, message, 1 FROM topic_entry, generate_series(1, 4500) AS n WHERE topic = ${numberOf(topic)}`,
    );
    await database.query(`UPDATE topic_partition SET next = 4501 WHERE topic = ${numberOf(topic)}`);
    await age(topic, '8 days', 4_400);
    await sweep();
    expect(await browse(topic)).toMatchObject({ earliest: 4_400, next: 4_501 });
  });

  it('does not keep writers waiting while it removes', async () => {
    const { topic } = await client.create();
    await client.post(topic, 10);
    await age(topic, '8 days', 5);
    const gate = await gateAt('DELETE', 'topic_entry');
    const sweeping = sweep();
    await gate.reached();
    await client.post(topic, 1);
    expect((await browse(topic)).earliest).toBe(0);
    await gate.open();
    await sweeping;
    expect(await browse(topic)).toEqual({ earliest: 5, next: 11, offsets: [5, 6, 7, 8, 9, 10] });
  });
});

describe('an entry never points to a removed payload', () => {
  it('when the inbox keeps messages for a shorter time than the topic', async () => {
    const { topic } = await client.create({ name: 'brief-inbox' });
    await client.post(topic, 3);
    await age(topic, '2 days');
    await sweep();
    expect(await stored(topic)).toBe(3);
    expect((await browse(topic)).offsets).toEqual([0, 1, 2]);
    await age(topic, '8 days', 2);
    await sweep();
    expect([await stored(topic), (await browse(topic)).offsets]).toEqual([1, [2]]);
    expect(await dangling()).toEqual([]);
  });

  it('when the topic keeps them for a shorter time than the inbox', async () => {
    const { topic } = await client.create({ name: 'long-inbox' });
    await client.post(topic, 3);
    await age(topic, '8 days');
    await sweep();
    expect([await stored(topic), (await browse(topic)).offsets]).toEqual([3, []]);
    const [message] = (await client.expect(200, 'GET', `/v1/messages?type=${topic}&limit=1`)).items;
    expect(await client.expect(200, 'GET', `/v1/messages/${message.id}`)).toMatchObject({ groups: [] });
  });

  it('when a group has rejected it and its own topic is past', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 3);
    await client.reject(group, 2);
    await age(topic, '8 days');
    await sweep();
    expect([await stored(topic), (await browse(topic)).offsets]).toEqual([2, []]);
    const { messages } = await client.expect(200, 'GET', `/v1/topics/${group}.dead/messages`);
    expect(messages).toMatchObject([
      { payload: 0, reason: 'reason 0', origin: { topic, offset: 0 } },
      { payload: 1, reason: 'reason 1', origin: { topic, offset: 1 } },
    ]);
  });

  it('when it is rejected in the moment in which retention could remove it', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 1);
    const member = await client.join(group);
    const { batches } = await client.poll(group, member);
    await age(topic, '8 days');
    // The rejection has found the message, and is not committed.
    const gate = await gateAt('INSERT', 'rejection');
    const rejecting = client.commit(group, member, batches[0]!, 0, [{ offset: 0, reason: 'late' }]);
    await gate.reached();
    const sweeping = sweep();
    await untilWaiting('ExclusiveLock', sweeping);
    await gate.open();
    expect(await rejecting).toBe('committed');
    await sweeping;
    expect((await browse(`${group}.dead`)).offsets).toEqual([0]);
    expect((await browse(topic)).offsets).toEqual([]);
    expect(await dangling()).toEqual([]);
  });

  it('when it is rejected while retention removes it: the rejection waits, and counts as skipped', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 1);
    const member = await client.join(group);
    const { batches } = await client.poll(group, member);
    await age(topic, '8 days');
    // The message is found to be past its retention, and its removal is not committed.
    const gate = await gateAt('DELETE', 'topic_entry', `OLD.topic = ${await numbered(topic)}`);
    const sweeping = sweep();
    await gate.reached();
    const skipped = `group_messages_skipped_total{group="${group}"}`;
    const [increase] = await metricIncreases(replica, [skipped], async () => {
      const rejecting = client.commit(group, member, batches[0]!, 0, [{ offset: 0, reason: 'too late' }]);
      await untilWaiting('ShareLock', rejecting);
      await gate.open();
      expect(await rejecting).toBe('committed');
    });
    await sweeping;
    await sweep();
    expect(increase).toBe(1);
    expect([await stored(topic), (await browse(`${group}.dead`)).offsets]).toEqual([0, []]);
    expect(await dangling()).toEqual([]);
  });
});

describe('a group that is behind the earliest offset', () => {
  it('B6 is told what it missed, once, and it is counted', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 10);
    const member = await client.join(group);
    const first = (await client.poll(group, member, { max: 2 })).batches[0]!;
    await client.commit(group, member, first, 1);
    await age(topic, '8 days', 6);
    await sweep();
    const { partitions, lag } = await client.expect(200, 'GET', `/v1/groups/${group}`);
    expect([lag, partitions[0].lag, partitions[0].expired]).toEqual([4, 4, 4]);
    const skipped = `group_messages_skipped_total{group="${group}"}`;
    const [increase] = await metricIncreases(replica, [skipped], async () => {
      const { batches } = await client.poll(group, member, { max: 3 });
      expect(batches).toMatchObject([{ from: 6, to: 8, skipped: { from: 2, to: 5 } }]);
      expect((await client.poll(group, member)).batches).toEqual([
        expect.not.objectContaining({ skipped: expect.anything() }),
      ]);
    });
    expect(increase).toBe(4);
  });

  it('B6 is told even if nothing is left in the partition', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 3);
    await age(topic, '8 days');
    await sweep();
    const member = await client.join(group);
    const { batches } = await client.poll(group, member);
    expect(batches).toMatchObject([{ count: 0, skipped: { from: 0, to: 2 } }]);
    expect((await client.poll(group, member)).batches).toEqual([]);
    expect((await client.expect(200, 'GET', `/v1/groups/${group}`)).partitions[0]).toMatchObject({
      committed: 2,
      lag: 0,
      expired: 0,
    });
  });

  it('B6 with onExpired "stop" gets nothing until an admin seeks', async () => {
    const { topic, group } = await client.create({ group: { onExpired: 'stop' } });
    await client.post(topic, 5);
    await age(topic, '8 days', 2);
    await sweep();
    const member = await client.join(group);
    const { status, body } = await client.tryPoll(group, member);
    expect([status, body.type]).toEqual([410, 'urn:sluice:problems/offsets-expired']);
    expect(body.detail).toContain(`${topic}/0: 0 to 1`);
    await client.expect(204, 'DELETE', `/v1/groups/${group}/members/${member}`);
    await client.expect(200, 'POST', `/v1/groups/${group}/seek`, { to: 'earliest' });
    const again = await client.join(group);
    expect((await client.poll(group, again)).batches).toMatchObject([{ from: 2, to: 4 }]);
  });
});

describe('a topic that is deleted', () => {
  it('ends the wait of a poll and fences what is in flight; nothing of it is left', async () => {
    const { topic, group } = await client.create({ topic: { partitions: 4 } });
    await client.post(topic, 20);
    const [member, other] = [await client.join(group), await client.join(group)];
    const [{ batches }] = await Promise.all([client.poll(group, member), client.poll(group, other)]);
    const waiting = await pollThatWaits(group, member);
    const number = await numbered(topic);
    await client.expect(204, 'DELETE', `/v1/topics/${topic}`);
    expect(await waiting.polled).toMatchObject({ assigned: [], batches: [] });
    expect(await client.commit(group, member, batches[0]!, batches[0]!.to)).toBe('fenced');
    expect((await client.tryPoll(group, member)).body).toMatchObject({ assigned: [], batches: [] });
    expect(await client.expect(200, 'GET', `/v1/groups/${group}`)).toMatchObject({ lag: 0, partitions: [] });
    expect((await client.call('GET', `/v1/topics/${topic}/messages`)).status).toBe(404);

    // One of the same name is another topic.
    await client.expect(201, 'PUT', `/v1/topics/${topic}`, { partitions: 4 });
    await client.post(topic, 4);
    expect(await client.commit(group, member, batches[0]!, batches[0]!.to)).toBe('fenced');
    const again = await until(async () => {
      const polled = [await client.poll(group, member), await client.poll(group, other)];
      const found = polled.flatMap(({ batches }) => batches);
      return found.length > 0 ? found : undefined;
    });
    expect(again!.map(({ from }) => from)).toEqual(again!.map(() => 0));

    await sweep();
    for (const table of ['topic_entry', 'topic_partition', 'group_cursor'])
      expect(await database.query(`SELECT FROM ${table} WHERE topic = $1`, [number])).toEqual([]);
    expect(await database.query('SELECT FROM topic WHERE number = $1', [number])).toEqual([]);
  });

  it('ends a poll at once that only begins to wait when it is deleted', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 2);
    const [member, other] = [await client.join(group), await client.join(group)];
    const polled = [await client.poll(group, member), await client.poll(group, other)];
    const [batch] = polled.flatMap(({ batches }) => batches);
    const owner = polled[0]!.batches.length > 0 ? member : other;
    await client.expect(204, 'DELETE', `/v1/topics/${topic}`);
    const startedMs = performance.now();
    const next = [{ topic, partition: 0, fence: batch!.fence, next: batch!.to + 1 }];
    const commit = [{ topic, partition: 0, fence: batch!.fence, offset: batch!.to }];
    // The first one assigns the partitions anew; the others state something that is no longer true.
    for (const stated of [{}, { next }, { commit }])
      expect(await client.poll(group, owner, { wait: '30s', ...stated })).toMatchObject({
        assigned: [],
        batches: [],
      });
    expect(performance.now() - startedMs).toBeLessThan(20_000);
  });

  it('keeps its row as long as its change is the newest: no replica takes a later change for this one', async () => {
    const { topic } = await client.create();
    await client.post(topic, 1);
    await client.expect(204, 'DELETE', `/v1/topics/${topic}`);
    const revision = async () =>
      (await database.query<{ max: string }>('SELECT max(revision) FROM topic'))[0]!.max;
    const before = await revision();
    await sweep();
    expect(await revision()).toBe(before);
    await client.create();
    expect(Number(await revision())).toBeGreaterThan(Number(before));
    await sweep();
    expect(await database.query('SELECT FROM topic WHERE name = $1', [topic])).toEqual([]);
  });

  it('keeps its row as long as dead letters came from it', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 1);
    await client.reject(group, 1);
    await client.expect(204, 'DELETE', `/v1/topics/${topic}`);
    await client.create();
    await sweep();
    const { messages } = await client.expect(200, 'GET', `/v1/topics/${group}.dead/messages`);
    expect(messages).toMatchObject([{ payload: 0, origin: { topic, offset: 0 } }]);
  });

  it.each([
    ['a topic and those who append', 'topics', lockTail(0), lockTail(3)],
    ['a topic and those who poll and commit', 'topics', lockCursor(0), lockCursor(3)],
    ['a group and those who poll and commit', 'groups', lockMembers, `${lockCursor(0)}; ${lockCursor(3)}`],
  ])('never deadlocks: %s lock in the same order', async (_who, kind, first, then) => {
    const { topic, group } = await client.create({ topic: { partitions: 4 } });
    await client.join(group);
    const other = await openSession(database);
    try {
      await other.query(`BEGIN; ${first.replace('NAME', topic)}`);
      const deleting = client.call('DELETE', `/v1/${kind}/${kind === 'topics' ? topic : group}`);
      await untilBlocked(database);
      await other.query(then.replaceAll('NAME', topic));
      await other.query('COMMIT');
      expect((await deleting).status).toBe(204);
    } finally {
      await other.close();
    }
  });

  it('leaves no cursor and fails no request, however many poll, commit and append at that moment', async () => {
    for (let round = 0; round < 5; round++) {
      const { topic, group } = await client.create({ topic: { partitions: 16 } });
      const members = await Promise.all(Array.from({ length: 4 }, () => client.join(group)));
      const gone = new AbortController();
      const failed: string[] = [];
      const checked = ({ status, text }: { status: number; text: string }) => {
        if (status >= 500) failed.push(text);
      };
      const consuming = members.map(async (member) => {
        let commit: object[] = [];
        while (!gone.signal.aborted) {
          const response = await client.tryPoll(group, member, { commit });
          checked(response);
          commit = (response.body.batches ?? []).map((batch: Record<string, unknown>) => ({
            ...{ topic: batch.topic, partition: batch.partition, fence: batch.fence },
            offset: batch.to,
          }));
        }
      });
      const producing = (async () => {
        while (!gone.signal.aborted) {
          const messages = Array.from({ length: 50 }, (_, n) => ({ key: `k-${n}`, type: topic, payload: n }));
          checked(await client.call('POST', '/v1/messages/batch', { messages }));
        }
      })();
      await until(async () => (await client.written(topic)) > 100);
      checked(await client.call('DELETE', `/v1/topics/${topic}`));
      await until(() => replica.app.nest.get(Topics).named(topic) === undefined);
      gone.abort();
      await Promise.all([...consuming, producing]);
      expect(failed).toEqual([]);
      expect((await client.expect(200, 'GET', `/v1/groups/${group}`)).partitions).toEqual([]);
      checked(await client.call('DELETE', `/v1/groups/${group}`));
    }
    expect(
      await database.query(
        'SELECT FROM group_cursor WHERE topic NOT IN (SELECT number FROM topic WHERE deleted_at IS NULL)',
      ),
    ).toEqual([]);
    expect((await metricsOf(replica))('retention_failed_total')).toBe(0);
  });
});

/** The poll has found nothing and is waiting now; a poll that comes after a change would not wait for it. */
async function pollThatWaits(group: string, member: string) {
  const poll = async () =>
    (await database.query<{ poll: string }>('SELECT poll FROM group_member WHERE id = $1', [member]))[0]!
      .poll;
  const before = await poll();
  const polled = client.poll(group, member, { wait: '30s' });
  await until(async () => (await poll()) !== before);
  return { polled };
}

function lockTail(partition: number): string {
  return `SELECT FROM topic_partition WHERE topic = ${numberOf('NAME')} AND partition = ${partition} FOR NO KEY UPDATE`;
}

function lockCursor(partition: number): string {
  return `SELECT FROM group_cursor WHERE topic = ${numberOf('NAME')} AND partition = ${partition} FOR NO KEY UPDATE`;
}

async function numbered(topic: string): Promise<number> {
  return (await database.query<{ max: number }>(`SELECT ${numberOf(topic)} AS max`))[0]!.max;
}

/**
 * Resolves when retention (ExclusiveLock) waits for a rejection or the other way round (ShareLock); or when `work` is over,
 * because it did not wait.
 */
async function untilWaiting(mode: 'ExclusiveLock' | 'ShareLock', work: Promise<unknown>): Promise<void> {
  let over = false;
  const ended = () => {
    over = true;
  };
  void work.then(ended, ended);
  await until(async () => {
    const rows = await database.query(
      `SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND mode = $1
         AND classid::bigint & 4294967295 = hashtext('sluice')::bigint & 4294967295
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      [mode],
    );
    return over || rows.length > 0;
  });
}
