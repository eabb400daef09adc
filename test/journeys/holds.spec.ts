import { describe, expect, it } from '@jest/globals';
import { startApp } from '../support/app.ts';
import { createDatabase } from '../support/database.ts';
import { metricIncreases } from '../support/metrics.ts';
import { openSession } from '../support/session.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const { database, replica } = sharedReplica();

const post = async (id: string, key: string, more: Record<string, unknown> = {}) =>
  replica.call('POST', '/v1/messages', { body: { id, key, type: 't', payload: null, ...more } });
const statusOf = async (id: string) => (await replica.call('GET', `/v1/messages/${id}`)).body.status;
const why = async (id: string) => (await replica.call('GET', `/v1/messages/${id}/why`)).body;

/** By the clock of the database. */
const inMs = async (ms: number) => {
  const [row] = await database.query<{ soon: Date }>(`SELECT now() + $1 * interval '1 ms' AS soon`, [ms]);
  return row!.soon.toISOString();
};

describe('the inbox', () => {
  it('C4 keeps the messages of a held key waiting, continues with others, and with all in order when the hold ends', async () => {
    const held = await replica.call('PUT', '/v1/keys/campaign%2F1/hold', {
      body: { until: null, reason: 'in creation' },
    });
    expect([held.status, held.body]).toEqual([
      200,
      { key: 'campaign/1', until: null, reason: 'in creation' },
    ]);
    for (const id of ['h-1', 'h-2', 'h-3']) await post(id, 'campaign/1');
    await post('free-1', 'campaign/2');
    await until(async () => (await statusOf('free-1')) === 'finished');
    await until(async () => (await statusOf('h-3')) === 'held');
    expect(await why('h-2')).toEqual({
      id: 'h-2',
      status: 'held',
      waitsFor: {
        kind: 'hold',
        hold: 'operator',
        reason: 'in creation',
        until: null,
        since: expect.any(String),
        deadLetter: null,
      },
      explanation: expect.stringContaining('An operator holds its key indefinitely (in creation)'),
      deliveries: [],
      groups: [],
    });
    const holds = await replica.call('GET', '/v1/holds');
    expect(holds.body.items).toEqual([
      { key: 'campaign/1', kind: 'operator', reason: 'in creation', until: null, since: expect.any(String) },
    ]);
    const ofKind = (kind: string) => replica.call('GET', `/v1/holds?kind=${kind}`);
    expect((await ofKind('operator')).body).toEqual(holds.body);
    expect((await ofKind('dead-letter')).body.items).toEqual([]);
    expect((await ofKind('operators')).status).toBe(422);

    expect((await replica.call('DELETE', '/v1/keys/campaign%2F1/hold')).status).toBe(204);
    await until(async () => (await statusOf('h-3')) === 'finished');
    const rows = await database.query<{ id: string }>(
      `SELECT id FROM inbox WHERE key = 'campaign/1' AND status = 'finished' ORDER BY settled_at, position`,
    );
    expect(rows.map(({ id }) => id)).toEqual(['h-1', 'h-2', 'h-3']);
    await until(async () => (await database.query('SELECT 1 FROM hold')).length === 0);
  });

  it('ends a hold at its time, by the clock of the database', async () => {
    const [{ soon }] = (await database.query<{ soon: Date }>(
      `SELECT now() + interval '300 milliseconds' AS soon`,
    )) as [{ soon: Date }];
    await replica.call('PUT', '/v1/keys/brief/hold', { body: { reason: 'r', until: soon.toISOString() } });
    await post('brief-1', 'brief');
    await until(async () => (await statusOf('brief-1')) === 'finished');
    const [row] = await database.query(`SELECT settled_at >= $1 AS late FROM inbox WHERE id = 'brief-1'`, [
      soon,
    ]);
    expect(row).toEqual({ late: true });
  });

  it('reports by /why what else a message waits for', async () => {
    await post('later', 'k', { dueAt: '2999-01-01T00:00:00Z' });
    expect((await why('later')).waitsFor).toEqual({ kind: 'time', until: '2999-01-01T00:00:00.000Z' });
    expect((await why('h-1')).waitsFor).toEqual({ kind: 'nothing' });
    expect((await replica.call('GET', '/v1/messages/none/why')).status).toBe(404);
  });

  it('reports by /why the holder of the lane and the number of messages before it', async () => {
    const own = await createDatabase();
    const api = await startApp(own, { ROLES: 'api' });
    const messages = ['one', 'two'].map((id) => ({ id, key: 'k', type: 't', payload: null }));
    await api.call('POST', '/v1/messages/batch', { body: { messages } });
    const asked = async () => (await api.call('GET', '/v1/messages/two/why')).body;
    const inTurn = await asked();
    await own.query(
      `UPDATE lane SET token = gen_random_uuid(), replica = 'host:7', leased_until = '2999-01-01T00:00:00Z'
       WHERE queue = 'inbox' AND lane = (SELECT lane FROM inbox WHERE id = 'two')`,
    );
    const leased = await asked();
    await api.close();
    await own.drop();
    expect(inTurn.waitsFor).toEqual({ kind: 'turn', ahead: 1 });
    expect(inTurn.explanation).toMatch(/processed after 1 others/);
    expect(leased.waitsFor).toEqual({
      kind: 'lease',
      replica: 'host:7',
      until: '2999-01-01T00:00:00.000Z',
      ahead: 1,
    });
    expect(leased.explanation).toMatch(/^Replica host:7 holds its lane and has 1 messages/);
  });

  it('returns 404 for a key that is not held, 422 for invalid input', async () => {
    expect((await replica.call('DELETE', '/v1/keys/nobody/hold')).status).toBe(404);
    expect((await replica.call('PUT', '/v1/keys/k/hold', { body: { reason: '' } })).status).toBe(422);
    expect(
      (await replica.call('PUT', '/v1/keys/k/hold', { body: { reason: 'r', until: 'soon' } })).status,
    ).toBe(422);
  });

  it('A9 expires a message that is too late', async () => {
    await post('late', 'late', { expiresAt: '2020-01-01T00:00:00Z' });
    await until(async () => (await statusOf('late')) === 'expired');
    expect((await replica.call('GET', '/v1/messages?status=expired')).body.items).toHaveLength(1);
  });

  it('A9 expires a held message at its time, counted, and keeps the hold', async () => {
    await replica.call('PUT', '/v1/keys/shut/hold', { body: { reason: 'closed for good' } });
    const [grown] = await metricIncreases(replica, ['messages_ended_total{status="expired"}'], async () => {
      await post('shut-1', 'shut', { expiresAt: await inMs(300) });
      await post('shut-2', 'shut');
      await until(async () => (await statusOf('shut-1')) === 'expired');
    });
    expect(grown).toBe(1);
    expect(await statusOf('shut-2')).toBe('held');
    const [row] = await database.query(
      `SELECT settled_at >= expires_at AS late, error FROM inbox WHERE id = 'shut-1'`,
    );
    expect(row).toEqual({ late: true, error: 'its expiresAt had passed' });
    expect((await replica.call('GET', '/v1/holds?key=shut')).body.items).toHaveLength(1);
    const after = await replica.call('GET', '/v1/candidates/shut?after=shut-1&wait=0s');
    expect([after.status, after.body.type]).toEqual([409, 'urn:sluice:problems/message-dead']);
  });

  it('A9 skips expired messages of a lane that is locked or leased, and expires the others', async () => {
    for (const [id, lane, status] of [
      ['at-work', 11, 'held'],
      ['in-hand', 12, 'processing'],
      ['at-rest', 13, 'held'],
    ])
      await database.query(
        `INSERT INTO inbox (id, source, type, key, lane, payload, status, waits, expires_at)
         VALUES ($1, 's', 't', $1, $2, '1', $3, 'held', now() + interval '2 seconds')`,
        [id, lane, status],
      );
    const session = await openSession(database);
    await session.query(`BEGIN; SELECT FROM lane WHERE queue = 'inbox' AND lane = 11 FOR UPDATE`);
    await until(async () => (await statusOf('at-rest')) === 'expired');
    expect([await statusOf('at-work'), await statusOf('in-hand')]).toEqual(['held', 'processing']);
    await session.query('COMMIT');
    await session.close();
    await until(async () => (await statusOf('at-work')) === 'expired');
    expect(await statusOf('in-hand')).toBe('processing');
  });

  it('A9 expires a scheduled message at its expiresAt before it is due, counted, and no other', async () => {
    const insert = (id: string, dueIn: string, expiresIn: string) =>
      database.query(
        `INSERT INTO inbox (id, source, type, key, lane, payload, status, waits, due_at, expires_at)
         VALUES ($1, 's', 't', $1, 7, '1', 'scheduled', 'due', now() + $2::interval, now() + $3::interval)`,
        [id, dueIn, expiresIn],
      );
    await insert('well', '1 day', '2 days');
    await insert('not-yet', '2 days', '1 day');
    const [grown] = await metricIncreases(replica, ['messages_ended_total{status="expired"}'], async () => {
      await insert('too-early', '10 years', '300 milliseconds');
      await until(async () => (await statusOf('too-early')) === 'expired');
    });
    expect(grown).toBe(1);
    const rows = await database.query(
      `SELECT id, status, error, settled_at >= expires_at AS late FROM inbox WHERE lane = 7 AND due_at > now() ORDER BY id`,
    );
    expect(rows).toEqual([
      { id: 'not-yet', status: 'scheduled', error: null, late: null },
      { id: 'too-early', status: 'expired', error: 'its expiresAt had passed', late: true },
      { id: 'well', status: 'scheduled', error: null, late: null },
    ]);
    await database.query(`DELETE FROM inbox WHERE id IN ('well', 'not-yet')`);
  });

  it('starts a scheduled message at its dueAt, not before', async () => {
    const [{ soon }] = (await database.query<{ soon: Date }>(
      `SELECT now() + interval '3 seconds' AS soon`,
    )) as [{ soon: Date }];
    const response = await post('due', 'due', { dueAt: soon.toISOString() });
    expect(response.body.status).toBe('scheduled');
    await until(async () => (await statusOf('due')) === 'finished');
    const [row] = await database.query(`SELECT settled_at >= due_at AS late FROM inbox WHERE id = 'due'`);
    expect(row).toEqual({ late: true });
  });
});
