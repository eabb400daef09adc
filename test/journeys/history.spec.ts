import { describe, expect, it } from '@jest/globals';
import { Database } from '../../src/database/database.ts';
import { Archive } from '../../src/history/archive.ts';
import { Retention } from '../../src/upkeep/retention/retention.ts';
import { untilBlocked } from '../support/session.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const { database, replica } = sharedReplica({
  RETENTION_FINISHED: '1h',
  HISTORY: 'urn:kept/*=forever,urn:year/*=365d',
});

const post = async (body: Record<string, unknown> | string) => {
  const response = await replica.call('POST', '/v1/messages', { body });
  return { status: response.status, body: response.body };
};
/** Posts messages, and waits until they are applied. */
const applied = async (...messages: (Record<string, unknown> & { id: string })[]) => {
  for (const message of messages) expect(await post(message)).toMatchObject({ status: 202 });
  for (const { id } of messages)
    await until(async () => (await replica.call('GET', `/v1/messages/${id}`)).body.status === 'finished');
};
/** As if the messages had been settled two hours ago. */
const sweep = async () => {
  await database.query(`UPDATE inbox SET settled_at = settled_at - interval '2 hours',
    received_at = received_at - interval '2 hours' WHERE settled_at IS NOT NULL`);
  await replica.app.nest.get(Retention).sweep();
};
const stored = async () =>
  (await database.query('SELECT id FROM inbox ORDER BY position')).map(({ id }) => id);
const kept = (id: string, more: Record<string, unknown> = {}) => ({
  id,
  type: 'urn:kept/a',
  key: 'k',
  payload: { n: 1 },
  ...more,
});

describe('history', () => {
  it('keeps finished messages of its types beyond their retention, as they were posted', async () => {
    const payload = '{"b":1.0,"a":[-0,1e3,"\\u0041\\u00e9é"], "b ":null}';
    await post(
      `{"id":"exact","type":"urn:kept/a","key":"k-1","headers":{"x":"y"},"occurredAt":"2026-01-31T12:00:00.123456+01:00","payload":${payload}}`,
    );
    await applied(kept('plain'), kept('other', { type: 'urn:other' }));
    const before = (await replica.call('GET', '/v1/messages/exact')).body;
    await sweep();
    expect(await stored()).toEqual([]);
    const { status, body, text } = await replica.call('GET', '/v1/messages/exact');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      archived: true,
      status: 'finished',
      key: 'k-1',
      headers: { x: 'y' },
      occurredAt: before.occurredAt,
      deliveries: [],
    });
    expect(text).toContain(`"payload":${payload}`);
    expect((await replica.call('GET', '/v1/messages/exact/payload')).text).toBe(payload);
    expect((await replica.call('GET', '/v1/messages/plain/why')).body).toMatchObject({
      explanation: 'It ended as finished.',
    });
    expect((await replica.call('GET', '/v1/messages/other')).status).toBe(404);
    const found = async (id: string) => (await replica.call('GET', `/v1/find?q=${id}`)).body.items;
    const source = 'urn:sluice:api-keys/admin';
    expect(await found('plain')).toEqual([
      {
        kind: 'message',
        id: 'plain',
        source,
        status: 'finished',
        type: 'urn:kept/a',
        at: expect.any(String),
      },
    ]);
    expect(await found('other')).toEqual([]);
  });

  it('still recognises duplicates, and conflicts', async () => {
    await applied(kept('once', { payload: { a: 1.5, b: [true] }, headers: { x: 'y' } }));
    await sweep();
    const again = kept('once', { payload: { b: [true], a: 1.5 }, headers: { x: 'y' } });
    expect(await post(again)).toEqual({
      status: 200,
      body: { id: 'once', status: 'finished', duplicate: true },
    });
    expect((await post({ ...again, payload: { a: 2 } })).status).toBe(409);
    expect((await post({ ...again, key: 'other' })).status).toBe(409);
    const batch = await replica.call('POST', '/v1/messages/batch', {
      body: { messages: [kept('new-one'), again, again] },
    });
    expect(batch.body.messages).toEqual([
      { id: 'new-one', status: 'pending' },
      { id: 'once', status: 'finished', duplicate: true },
      { id: 'once', status: 'finished', duplicate: true },
    ]);
    expect(await stored()).toEqual(['new-one']);
  });

  it('is known to `?after=`: what it was for is applied', async () => {
    await applied(kept('seen'));
    const statusAfter = async (id: string) =>
      (await replica.call('GET', `/v1/candidates?after=${id}`)).status;
    await sweep();
    expect(await stored()).not.toContain('seen');
    expect([await statusAfter('seen'), await statusAfter('never')]).toEqual([200, 404]);
    // Another producer has used the id: the caller waits for its own message, which is in history.
    await database.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, status) VALUES ('seen', 'urn:other', 't', 'k-other', 0, '1', 'pending')`,
    );
    await database.query(
      `INSERT INTO hold (queue, key, lane, until, reason) VALUES ('inbox', 'k-other', 0, 'infinity', 'operator')`,
    );
    expect(await statusAfter('seen')).toBe(200);
    await database.query(`DELETE FROM hold; DELETE FROM inbox WHERE source = 'urn:other'`);
  });

  it('is not duplicated by a tick of a schedule whose earlier time a backup restored', async () => {
    const setNext = () =>
      database.query(`UPDATE schedule SET next_at = date_trunc('hour', now()) - interval '3 hours'`);
    const isPast = async () =>
      (await database.query('SELECT FROM schedule WHERE next_at < now()')).length > 0;
    const body = { cron: '0 * * * *', onMissed: 'all', type: 'urn:kept/tick', payload: {} };
    expect((await replica.call('PUT', '/v1/schedules/restored', { body })).status).toBe(201);
    await setNext();
    await until(async () => !(await isPast()));
    const ticks = await stored();
    expect(ticks.length).toBeGreaterThan(0);
    await until(
      async () => (await database.query('SELECT FROM inbox WHERE settled_at IS NULL')).length === 0,
    );
    await sweep();
    expect(await stored()).toEqual([]);
    await setNext();
    await until(async () => !(await isPast()));
    // A tick of the present hour may have been due meanwhile.
    expect((await stored()).filter((id) => ticks.includes(id))).toEqual([]);
    expect((await replica.call('DELETE', '/v1/schedules/restored')).status).toBe(204);
  });

  it('is not duplicated by a message that is posted again while it is moved', async () => {
    await applied(kept('moving'));
    const [row] = await database.query<{ position: string }>(
      `SELECT position FROM inbox WHERE id = 'moving'`,
    );
    const { nest } = replica.app;
    const posted = await nest.get(Database).transaction(async (tx) => {
      await nest.get(Archive).move([Number(row!.position)], tx);
      const again = post(kept('moving'));
      await untilBlocked(database);
      return { again };
    });
    expect(await posted.again).toMatchObject({ status: 200, body: { duplicate: true } });
    expect(await stored()).not.toContain('moving');
  });

  it('loses nothing when it cannot be written, and holds up nothing else', async () => {
    await database.query(
      `ALTER TABLE archive_block ADD CONSTRAINT no_space CHECK (NOT 'urn:kept/full' = ANY (types)) NOT VALID`,
    );
    await applied(kept('stays', { type: 'urn:kept/full' }), kept('goes', { type: 'urn:other' }));
    await sweep();
    expect(await stored()).toContain('stays');
    expect(await stored()).not.toContain('goes');
    expect((await replica.call('GET', '/v1/messages/stays')).body.archived).toBeUndefined();
    const failures = () => replica.call('GET', '/v1/attention').then(({ body }) => body.items);
    expect(await until(async () => (await failures())[0])).toMatchObject({
      kind: 'history-failed',
      severity: 'critical',
      guide: 'history-cannot-be-written',
      sentence: expect.stringContaining('violates check constraint "no_space"'),
    });
    await database.query('ALTER TABLE archive_block DROP CONSTRAINT no_space');
    await sweep();
    expect(await stored()).not.toContain('stays');
    await until(async () => (await failures()).length === 0);
  });

  it('takes a payload that jsonb does not take', async () => {
    await database.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at)
       VALUES ('nul', 's', 'urn:kept/a', 'k', 0, '"\\u0000"', 'finished', now()), ('half', 's', 'urn:kept/a', 'k', 0, '"\\uD800"', 'finished', now())`,
    );
    await sweep();
    expect(await stored()).not.toContain('nul');
    expect((await replica.call('GET', '/v1/messages/half/payload')).text).toBe('"\\uD800"');
  });

  it('keeps a message in the inbox as long as an entry of a topic points to it', async () => {
    await applied(kept('of-topic'));
    await database.query(`INSERT INTO topic_entry (topic, partition, "offset", message, bytes)
      SELECT 99, 0, 0, position, 1 FROM inbox WHERE id = 'of-topic'`);
    await sweep();
    expect(await stored()).toContain('of-topic');
    await database.query('DELETE FROM topic_entry');
    await sweep();
    expect(await stored()).not.toContain('of-topic');
  });
});
