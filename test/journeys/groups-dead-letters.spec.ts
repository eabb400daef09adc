import { beforeAll, describe, expect, it } from '@jest/globals';
import { Retention } from '../../src/upkeep/retention/retention.ts';
import { READ_KEY } from '../support/app.ts';
import { GroupClient } from '../support/group-client.ts';
import { closedGate } from '../support/lanes.ts';
import { metricIncreases } from '../support/metrics.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const { database, replica } = sharedReplica({ DEAD_LETTER_ALERTS: '100,group/alarmed-readers=2+3' });

let client: GroupClient;
beforeAll(() => {
  client = new GroupClient(replica);
});

const get = (path: string) => client.expect(200, 'GET', path);
const listed = async (query: string) => (await get(`/v1/dead-letters?${query}`)).items;
const progress = (location: string) =>
  until(async () => {
    const body = await get(location);
    return body.remaining === 0 ? body : undefined;
  });

/** Reads all that the group has to read, commits it, and leaves. */
async function readAll(group: string): Promise<{ topic: string; payload: unknown }[]> {
  const member = await client.join(group);
  const { batches } = await client.poll(group, member);
  for (const batch of batches) await client.commit(group, member, batch, batch.to);
  await client.expect(204, 'DELETE', `/v1/groups/${group}/members/${member}`);
  return batches.flatMap(({ topic, messages }) => messages.map(({ payload }) => ({ topic, payload })));
}

/** Updates of rejections wait there, until the function is dropped. */
async function gateUpdates(gate: string): Promise<void> {
  await database.query(`
    CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM ${gate}; RETURN NEW; END $$;
    CREATE TRIGGER gate BEFORE UPDATE ON rejection FOR EACH ROW EXECUTE FUNCTION wait_at_gate()`);
}

function untilOneWaits(): Promise<boolean> {
  return until(async () => {
    const waiting = await database.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'transactionid'`,
    );
    return waiting.length > 0;
  });
}

/** A group that rejected its message and was sought back to it; `reject` rejects it again. */
async function rejectedBeforeSeek() {
  const { topic, group } = await client.create();
  await client.post(topic, 1);
  await client.reject(group, 1, () => 'before');
  await client.expect(200, 'POST', `/v1/groups/${group}/seek`, { to: 'earliest' });
  const member = await client.join(group);
  const { batches } = await client.poll(group, member);
  const reject = () => client.commit(group, member, batches[0]!, 0, [{ offset: 0, reason: 'after' }]);
  return { group, reject };
}

describe('the dead letters of a group', () => {
  it('B7 are listed, filtered, grouped by error and shown with their payload', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 4, (n) => `key-${n}`);
    await client.reject(group, 3, (n) => (n === 2 ? 'refused' : `no customer ${n}`));
    const items = await listed(`stage=group&group=${group}`);
    expect(items).toMatchObject([
      { error: 'refused', key: 'key-2', origin: { topic, partition: 0, offset: 2 } },
      { error: 'no customer 1', key: 'key-1', origin: { topic, partition: 0, offset: 1 } },
      {
        stage: 'group',
        group,
        type: topic,
        key: 'key-0',
        attempt: 1,
        error: 'no customer 0',
        fingerprint: 'no customer <n>',
        waiting: 0,
      },
    ]);
    expect(await listed(`group=${group}&key=key-1`)).toHaveLength(1);
    expect(await listed(`group=${group}&error=customer`)).toHaveLength(2);
    expect(await listed(`type=${topic}`)).toHaveLength(3);
    expect(await listed(`group=${group}&since=2999-01-01T00:00:00Z`)).toEqual([]);
    expect((await get(`/v1/dead-letters/groups?group=${group}`)).items).toMatchObject([
      { stage: 'group', group, fingerprint: 'no customer <n>', count: 2 },
      { stage: 'group', group, fingerprint: 'refused', count: 1 },
    ]);
    expect(await get(`/v1/dead-letters/${items[0].id}`)).toMatchObject({
      id: items[0].id,
      stage: 'group',
      group,
      error: 'refused',
      message: items[0].message,
      payload: 2,
    });
    const first = await get(`/v1/dead-letters?group=${group}&limit=2`);
    const second = await get(`/v1/dead-letters?group=${group}&limit=2&cursor=${first.next}`);
    expect([...first.items, ...second.items]).toEqual(items);
    expect(second.next).toBeNull();
    expect((await get(`/v1/messages/${items[0].message}`)).groups).toMatchObject([
      { group, status: 'rejected' },
    ]);
  });

  it('B7 are recorded once, also if one commit names a message twice', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 1);
    const member = await client.join(group);
    const { batches } = await client.poll(group, member);
    const reject = () =>
      client.commit(group, member, batches[0]!, 0, [
        { offset: 0, reason: 'a' },
        { offset: 0, reason: 'b' },
      ]);
    expect([await reject(), await reject()]).toEqual(['committed', 'committed']);
    expect(await listed(`group=${group}`)).toHaveLength(1);
  });

  it.each<['POST' | 'DELETE', path: string, what: string]>([
    ['POST', '/revive', 'revived'],
    ['DELETE', '', 'discarded'],
  ])('are recorded anew after a seek: %s %s', async (method, path, what) => {
    const { topic, group } = await client.create();
    await client.post(topic, 2);
    const rejectAndSeek = async (reason: string) => {
      const member = await client.join(group);
      const { batches } = await client.poll(group, member);
      const batch = batches.find((one) => one.topic === topic)!;
      const reject = () => client.commit(group, member, batch, 1, [{ offset: 0, reason }]);
      await reject();
      const [dead] = await listed(`group=${group}`);
      expect(dead).toMatchObject({ error: reason, origin: { topic, partition: 0, offset: 0 } });
      await client.expect(method === 'POST' ? 200 : 204, method, `/v1/dead-letters/${dead.id}${path}`);
      // A retry of the same commit.
      await reject();
      expect(await listed(`group=${group}`)).toEqual([]);
      await client.expect(204, 'DELETE', `/v1/groups/${group}/members/${member}`);
      await client.expect(200, 'POST', `/v1/groups/${group}/seek`, { to: 'earliest', topic });
      return dead;
    };
    const first = await rejectAndSeek('before');
    const second = await rejectAndSeek('after');
    expect([second.id === first.id, second.message]).toEqual([false, first.message]);
    expect((await get(`/v1/topics/${group}.dead/messages`)).messages).toMatchObject([
      { reason: 'before', origin: { topic, partition: 0, offset: 0 } },
      { reason: 'after', origin: { topic, partition: 0, offset: 0 } },
    ]);
    const { groups } = await get(`/v1/messages/${first.message}`);
    expect(groups.filter((one: { topic: string }) => one.topic === topic)).toMatchObject([{ status: what }]);
  });

  it('are not doubled by a seek while nobody has decided about them', async () => {
    const { group, reject } = await rejectedBeforeSeek();
    await reject();
    const dead = await listed(`group=${group}`);
    expect(dead).toMatchObject([{ error: 'before' }]);
    await client.expect(204, 'DELETE', `/v1/dead-letters/${dead[0].id}`);
    await reject();
    expect(await listed(`group=${group}`)).toEqual([]);
  });

  it('are recorded if one of before the seek is discarded meanwhile', async () => {
    const { group, reject } = await rejectedBeforeSeek();
    const [{ id }] = await listed(`group=${group}`);
    const gate = await closedGate(database);
    await gateUpdates(gate.sql);
    const discarding = client.call('DELETE', `/v1/dead-letters/${id}`);
    await gate.reached();
    const rejecting = reject();
    await untilOneWaits();
    await gate.open();
    expect([(await discarding).status, await rejecting]).toEqual([204, 'committed']);
    await database.query('DROP FUNCTION wait_at_gate CASCADE');
    expect(await listed(`group=${group}`)).toMatchObject([{ error: 'after' }]);
  });

  it('are recorded anew after a seek, too, if consumers die with them', async () => {
    const { topic, group } = await client.create({ group: { session: '1s', attempts: 1 } });
    await client.post(topic, 1);
    for (const time of [1, 2]) {
      await client.poll(group, await client.join(group));
      const [dead] = await until(async () => {
        await client.call('GET', `/v1/groups/${group}`);
        const other = await client.join(group);
        await client.expect(204, 'DELETE', `/v1/groups/${group}/members/${other}`);
        const found = await listed(`group=${group}`);
        return found.length > 0 && found;
      });
      expect(dead.error).toContain('its consumer died 1 times');
      await client.expect(204, 'DELETE', `/v1/dead-letters/${dead.id}`);
      expect((await get(`/v1/topics/${group}.dead`)).partitions[0].next).toBe(time);
      await client.expect(200, 'POST', `/v1/groups/${group}/seek`, { to: 'earliest' });
    }
  });

  it('go again to their group alone when one is revived, and to nobody when it is discarded', async () => {
    const { topic, group } = await client.create();
    await client.expect(201, 'PUT', `/v1/groups/${group}-2`, { topics: [topic] });
    await client.post(topic, 3);
    await client.reject(group, 3);
    expect(await readAll(`${group}-2`)).toHaveLength(3);
    const [last, , first] = await listed(`group=${group}`);
    const counts = ['revived', 'discarded'].map((what) => `dead_letters_${what}_total{stage="group"}`);
    const increases = await metricIncreases(replica, counts, async () => {
      const reason = { reason: 'repaired' };
      const response = await client.expect(200, 'POST', `/v1/dead-letters/${first.id}/revive`, reason);
      expect(response).toEqual({ id: first.id, stage: 'group', status: 'revived' });
      await client.expect(204, 'DELETE', `/v1/dead-letters/${last.id}`, { reason: 'not wanted' });
    });
    expect(increases).toEqual([1, 1]);
    expect(await listed(`group=${group}`)).toMatchObject([{ error: 'reason 1' }]);
    expect(await readAll(group)).toEqual([{ topic: `${group}.revived`, payload: 0 }]);
    expect(await readAll(`${group}-2`)).toEqual([]);
    for (const { id } of [first, last])
      expect((await client.call('POST', `/v1/dead-letters/${id}/revive`)).status).toBe(409);
    expect((await client.call('GET', `/v1/dead-letters/${first.id}`)).status).toBe(409);
    const rows = await database.query(
      'SELECT status, ruled_by, ruled_at IS NOT NULL AS ruled FROM rejection WHERE id = ANY ($1) ORDER BY position',
      [[first.id, last.id]],
    );
    expect(rows).toEqual([
      { status: 'revived', ruled_by: 'admin', ruled: true },
      { status: 'discarded', ruled_by: 'admin', ruled: true },
    ]);
    const { items } = await get('/v1/audit?action=dead-letters.*&limit=2');
    expect(items).toMatchObject([
      { by: 'admin', action: 'dead-letters.discard', target: last.id, count: 1, reason: 'not wanted' },
      { by: 'admin', action: 'dead-letters.revive', target: first.id, count: 1, reason: 'repaired' },
    ]);
    expect(await get(`/v1/topics/${group}.revived`)).toMatchObject({ kind: 'revived', origin: 'group' });
    expect((await get(`/v1/messages/${first.message}`)).groups).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ group, topic, status: 'revived' }),
        expect.objectContaining({ group, topic: `${group}.revived`, status: 'processed' }),
      ]),
    );
  });

  it('wake a poll that waits when they are revived', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 1);
    await client.reject(group, 1);
    const member = await client.join(group);
    expect((await client.poll(group, member)).batches).toEqual([]);
    const waiting = async () => {
      for (;;) {
        const { batches } = await client.poll(group, member, { wait: '30s' });
        if (batches.length > 0) return batches;
      }
    };
    const polled = waiting();
    const [dead] = await listed(`group=${group}`);
    await client.expect(200, 'POST', `/v1/dead-letters/${dead.id}/revive`);
    expect(await polled).toMatchObject([{ topic: `${group}.revived`, partition: 0, count: 1 }]);
  });

  it('are revived by a filter, in order per key, with the progress of it; those rejected again are dead again', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 6, (n) => `key-${n % 2}`);
    await client.reject(group, 6);
    const filter = { group, error: 'reason' };
    const dry = await client.expect(200, 'POST', '/v1/dead-letters/revive', { filter, dryRun: true });
    expect(dry).toEqual({ matched: 6, dryRun: true });
    const { location, matched } = await client.expect(202, 'POST', '/v1/dead-letters/revive', { filter });
    expect(matched).toBe(6);
    expect(await progress(location)).toMatchObject({
      kind: 'revive',
      status: 'running',
      matched: 6,
      done: 6,
      skipped: 0,
      waiting: 6,
      ended: 0,
      dead: 0,
      filter,
    });
    const member = await client.join(group);
    const { batches } = await client.poll(group, member);
    const payloads = batches.flatMap(({ messages }) => messages.map(({ payload }) => payload as number));
    expect(payloads.filter((n) => n % 2 === 0)).toEqual([0, 2, 4]);
    expect(payloads.filter((n) => n % 2 === 1)).toEqual([1, 3, 5]);
    const again = [{ offset: 1, reason: 'still wrong' }];
    await client.commit(group, member, batches[0]!, 3, again);
    expect(await get(location)).toMatchObject({ status: 'running', waiting: 2, ended: 3, dead: 1 });
    await client.commit(group, member, batches[0]!, 5);
    expect(await get(location)).toMatchObject({ status: 'finished', waiting: 0, ended: 5, dead: 1 });
    expect(await listed(`group=${group}`)).toMatchObject([
      { error: 'still wrong', origin: { topic: `${group}.revived`, partition: 0, offset: 1 } },
    ]);
    const { items } = await get('/v1/audit?action=dead-letters.revive&limit=1');
    expect(items).toMatchObject([{ by: 'admin', filter, count: 6 }]);
  });

  it('are acted on in steps, group by group, together with those of other stages', async () => {
    const one = await client.create();
    const two = await client.create();
    for (const { topic, group } of [one, two]) {
      await client.post(topic, 600);
      await client.reject(group, 300);
      await client.reject(group, 300);
    }
    await database.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at, lapsed_at, error)
       VALUES ('of-inbox', 'x', 'steps', 'k', 0, 'null', 'dead', now(), now(), 'reason 7')`,
    );
    const request = { filter: { error: 'reason <n>' }, reason: 'junk' };
    const { location, matched } = await client.expect(202, 'POST', '/v1/dead-letters/discard', request);
    expect(matched).toBeGreaterThanOrEqual(1_201);
    expect(await progress(location)).toMatchObject({ kind: 'discard', done: matched, skipped: 0 });
    expect(await listed('error=reason')).toEqual([]);
    expect(await readAll(one.group)).toEqual([]);
  });

  it('are each revived or discarded once, whoever comes first', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 1);
    await client.reject(group, 1);
    const [{ id }] = await listed(`group=${group}`);
    const gate = await closedGate(database);
    await gateUpdates(gate.sql);
    const discarding = client.call('DELETE', `/v1/dead-letters/${id}`);
    await gate.reached();
    const reviving = client.call('POST', `/v1/dead-letters/${id}/revive`);
    await untilOneWaits();
    await gate.open();
    expect([(await discarding).status, (await reviving).status]).toEqual([204, 409]);
    await database.query('DROP FUNCTION wait_at_gate CASCADE');
    expect(await readAll(group)).toEqual([]);
  });

  it('end with their group: a revive that comes too late skips them', async () => {
    const { topic, group } = await client.create();
    await client.post(topic, 2);
    await client.reject(group, 2);
    const [dead] = await listed(`group=${group}`);
    const { id } = (
      await database.query<{ id: number }>(
        `INSERT INTO ruling (kind, filter, matched, created_by, done_at) VALUES ('revive', '{}', 1, 'late', now()) RETURNING id`,
      )
    )[0]!;
    await database.query(
      `INSERT INTO ruling_item (ruling, stage, lane, key, position)
       SELECT $1, 'group', group_number, 'k-1', position FROM rejection WHERE id = $2`,
      [id, dead.id],
    );
    await client.expect(204, 'DELETE', `/v1/groups/${group}`);
    await database.query('UPDATE ruling SET done_at = NULL WHERE id = $1', [id]);
    expect(await progress(`/v1/dead-letters/rulings/${id}`)).toMatchObject({ done: 0, skipped: 1 });
    expect((await client.call('GET', `/v1/dead-letters/${dead.id}`)).status).toBe(404);
    expect((await client.call('GET', `/v1/dead-letters?group=${group}`)).status).toBe(422);
    // They can still be read, and are kept as long as dead letters.
    expect(await get(`/v1/topics/${group}.dead`)).toMatchObject({ kind: 'topic', retention: '30d' });
    expect((await get(`/v1/topics/${group}.dead/messages`)).count).toBe(2);
    await client.expect(204, 'DELETE', `/v1/topics/${group}.dead`);
    await client.create();
    await replica.app.nest.get(Retention).sweep();
    expect(await database.query('SELECT FROM rejection WHERE id = $1', [dead.id])).toEqual([]);
  });

  it('are chosen by filters that say clearly what is wrong with them, and by admins alone', async () => {
    const { group } = await client.create();
    for (const [filter, pointer] of [
      [{ group: 'nobody' }, '/filter/group'],
      [{ stage: 'inbox', group }, '/filter/group'],
      [{ stage: 'outbox', group }, '/filter/group'],
      [{ listener: 'x', group }, '/filter/group'],
      [{ stage: 'group', listener: 'x' }, '/filter/listener'],
      [{ group: null }, '/filter/group'],
    ] as const) {
      const response = await client.call('POST', '/v1/dead-letters/revive', { filter, dryRun: true });
      expect([filter, response.status, response.body.errors?.[0].pointer]).toEqual([filter, 422, pointer]);
    }
    const body = { filter: { group } };
    const response = await replica.call('POST', '/v1/dead-letters/revive', { body, key: READ_KEY });
    expect(response.status).toBe(403);
  });

  it('E6 raise an alarm at the thresholds of their group', async () => {
    const { topic, group } = await client.create({ name: 'alarmed' });
    await client.post(topic, 4);
    const alarms = async () =>
      (
        await database.query<{ payload: object }>(
          `SELECT payload FROM inbox WHERE type = 'urn:sluice:alerts/dead-letters' AND key = $1 ORDER BY position`,
          [`group/${group}`],
        )
      ).map(({ payload }) => payload);
    await client.reject(group, 2);
    await until(async () => (await alarms()).length === 1);
    await client.reject(group, 2);
    await until(async () => (await alarms()).length === 2);
    expect(await alarms()).toEqual([
      { stage: 'group', group, threshold: 2, atLeast: 2 },
      { stage: 'group', group, threshold: 3, atLeast: 4 },
    ]);
  });
});
