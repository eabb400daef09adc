import { describe, expect, it } from '@jest/globals';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';
import { AI_CHECKS, ISSUED, issuingChecks } from './issuing-checks.ts';

const { database, replica } = sharedReplica({ INBOX_POLL: '20ms', LOG_LEVEL: 'info' }, [issuingChecks]);

const check = (id: string, applicationId: string) =>
  database.query(`INSERT INTO issuing_check VALUES ($1, $2, 'NEW')`, [id, applicationId]);
const done = (id: string) =>
  database.query(`UPDATE issuing_check SET work_status = 'DONE' WHERE id = $1`, [id]);

async function post(type: string, applicationId: string, more: object = {}): Promise<string> {
  const body = { type, key: applicationId, payload: { triggerId: `${type}?`, applicationId }, ...more };
  return (await replica.call('POST', '/v1/messages', { body })).body.id;
}

const message = async (id: string) => (await replica.call('GET', `/v1/messages/${id}`)).body;
const finished = (id: string) => until(async () => (await message(id)).status === 'finished');

async function steps(applicationId: string): Promise<string[]> {
  const sql = 'SELECT message_id FROM issuing_step WHERE application_id = $1 ORDER BY step';
  return (await database.query<{ message_id: string }>(sql, [applicationId])).map((row) => row.message_id);
}

/** How often it was deferred so far. */
const timesDeferred = (id: string) =>
  replica.lines.filter((line) => line.includes('"inbox.deferred"') && line.includes(`"${id}"`)).length;

describe('A15 issuing checks: two are still NEW, so the event is deferred', () => {
  it('is retried again and again without being charged, and is handled once when only one is left', async () => {
    await Promise.all([check('c-1', 'a-1'), check('c-2', 'a-1')]);
    const id = await post(AI_CHECKS, 'a-1');
    await until(() => timesDeferred(id) >= 3);
    await until(async () => {
      const { status, attempt, error } = await message(id);
      return status === 'held' && attempt === 0 && error === 'Defer: 2 checks still NEW';
    });
    expect(await steps('a-1')).toEqual([]);

    await done('c-1');
    await finished(id);
    expect(await message(id)).toMatchObject({ attempt: 1, error: null });
    expect(await steps('a-1')).toEqual([id]);
  });

  it('A7 keeps later messages of the same application behind it, while others continue', async () => {
    await Promise.all([check('c-3', 'a-2'), check('c-4', 'a-2')]);
    const first = await post(AI_CHECKS, 'a-2');
    await until(() => timesDeferred(first) >= 1);
    const second = await post(ISSUED, 'a-2');
    const elsewhere = await post(AI_CHECKS, 'a-3');
    await finished(elsewhere);
    expect(await steps('a-2')).toEqual([]);

    await Promise.all([done('c-3'), done('c-4')]);
    await finished(second);
    expect(await steps('a-2')).toEqual([first, second]);
    expect(await message(second)).toMatchObject({ attempt: 1 });
  });

  it('A9 expires when the task is overdue before its checks are done', async () => {
    await Promise.all([check('c-5', 'a-4'), check('c-6', 'a-4')]);
    const expiresAt = new Date(Date.now() + 3_000).toISOString();
    const overdue = await post(AI_CHECKS, 'a-4', { expiresAt });
    await until(() => timesDeferred(overdue) >= 1);
    const next = await post(ISSUED, 'a-4');
    await until(async () => (await message(overdue)).status === 'expired');
    await finished(next);
    expect(await steps('a-4')).toEqual([next]);
    const metrics = (await replica.call('GET', '/metrics')).text;
    expect(metrics).toMatch(/sluice_messages_ended_total\{status="expired"\} 1/);
  });
});
