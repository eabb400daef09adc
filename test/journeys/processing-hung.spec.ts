import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import { Pending } from '../../src/contract/pending.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import { Problem } from '../../src/http/problems.ts';
import { startApp } from '../support/app.ts';
import { createDatabase } from '../support/database.ts';
import { metricsOf } from '../support/metrics.ts';
import { oneTableReadModel } from '../support/one-table-read-model.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

type Habit = { hangs?: 'idle' | 'busy' };

const MARK = 'INSERT INTO mark VALUES ($1)';

/** Never ends: waits forever, or repeats a query forever. */
@Denormalizer({ types: ['mark'] })
@Injectable()
class Marks {
  async apply({ key, payload }: Message<Habit>, tx: ReadModelTransaction): Promise<void> {
    await tx.query(MARK, [key]);
    if (payload.hangs === 'idle') await new Promise(() => undefined);
    while (payload.hangs === 'busy') await tx.query('SELECT pg_sleep(0.02)');
  }
}

@Denormalizer({ types: ['marks'] })
@Injectable()
class ManyMarks {
  async applyBatch(messages: readonly Message<Habit>[], tx: ReadModelTransaction): Promise<void> {
    for (const { key } of messages) await tx.query(MARK, [key]);
    if (messages.some(({ payload }) => payload.hangs)) await new Promise(() => undefined);
  }
}

const MARKS = oneTableReadModel('mark (key text)', [Marks, ManyMarks]);
const SETTINGS = {
  ROLES: 'api,inbox',
  INBOX_RETRY_SCHEDULE: '1ms',
  INBOX_POLL: '20ms',
  INBOX_WORKERS: '1',
};

const { database, replica } = sharedReplica(SETTINGS, [MARKS], { inboxApplyTimeout: 200 });

const post = (messages: { id: string; key: string; type?: string; payload: Habit }[]) =>
  replica.call('POST', '/v1/messages/batch', {
    body: { messages: messages.map((message) => ({ type: 'mark', ...message })) },
  });
const story = async (id: string) => (await replica.call('GET', `/v1/messages/${id}`)).body;
const ended = (id: string, status: string) => until(async () => (await story(id)).status === status);

describe('an apply that never ends', () => {
  it.each([
    ['mark', 'idle'],
    ['mark', 'busy'],
    ['marks', 'idle'],
  ] as const)('gets its attempts like any other and is then dead, alone (%s, %s)', async (type, hangs) => {
    const name = (n: number) => `${type}-${hangs}-${n}`;
    await post(
      Array.from({ length: 12 }, (_, n) => ({
        ...{ id: name(n), key: name(n), type },
        payload: n === 5 ? { hangs } : {},
      })),
    );
    await ended(name(5), 'dead');
    expect(await story(name(5))).toMatchObject({
      attempt: 2,
      error: expect.stringMatching(/^ApplyHung: apply did not end \(it took longer than 200ms\)/),
    });
    for (const n of [0, 4, 6, 11]) {
      await ended(name(n), 'finished');
      expect(await story(name(n))).toMatchObject({ attempt: 1 });
    }
    const marks = await database.query('SELECT key FROM mark WHERE key LIKE $1', [`${type}-${hangs}-%`]);
    expect(marks).toHaveLength(11);
  });

  it('keeps its lanes while several are retried one by one for longer than the lease', async () => {
    const own = await createDatabase();
    const beyond = { inboxApplyTimeout: 400, inboxLease: 600 };
    const replicas = [
      await startApp(own, SETTINGS, [MARKS], beyond),
      await startApp(own, SETTINGS, [MARKS], beyond),
    ];
    const messages = ['a', 'b', 'c'].map((id) => ({ id, key: id, type: 'mark', payload: { hangs: 'idle' } }));
    await replicas[0]!.call('POST', '/v1/messages/batch', { body: { messages } });
    await until(async () => (await own.query(`SELECT FROM inbox WHERE status = 'dead'`)).length === 3);
    const dead = await own.query<{ attempt: number; error: string }>('SELECT attempt, error FROM inbox');
    const lost = await Promise.all(replicas.map(metricsOf));
    for (const one of replicas) await one.close();
    await own.drop();
    expect(lost.map((metric) => metric('leases_lost_total{stage="inbox"}'))).toEqual([0, 0]);
    for (const row of dead) expect(row).toEqual({ attempt: 2, error: expect.stringContaining('ApplyHung') });
  });

  it('takes as much time as one when many hang together: the server ends their idle session, and one is retried alone', async () => {
    const own = await createDatabase();
    const one = await startApp(own, { ...SETTINGS, INBOX_RETRY_SCHEDULE: '1h' }, [MARKS]);
    const messages = Array.from({ length: 20 }, (_, n) => ({
      ...{ id: `m-${n}`, key: `k-${n}`, type: 'mark' },
      payload: n % 2 ? { hangs: 'idle' } : {},
    }));
    await one.call('POST', '/v1/messages/batch', { body: { messages } });
    await until(
      async () => (await own.query(`SELECT FROM inbox WHERE status IN ('held', 'finished')`)).length === 20,
    );
    const rows = await own.query<{ status: string; attempt: number; error: string | null }>(
      'SELECT status, attempt, error FROM inbox ORDER BY position',
    );
    await one.close();
    await own.drop();
    const idle = expect.stringMatching(/^ApplyHung: .*idle-in-transaction/);
    for (const [n, row] of rows.entries())
      expect(row).toEqual(
        n % 2 ? { status: 'held', attempt: 1, error: idle } : { status: 'finished', attempt: 1, error: null },
      );
  }, 40_000);

  it('takes no more when it was their last attempt, and they hold nothing', async () => {
    const own = await createDatabase();
    await own.query(
      `INSERT INTO inbox (id, source, type, key, keyless, lane, payload, attempt)
       SELECT 'm-' || n, 's', 'mark', 'm-' || n, true, n, '{"hangs": "idle"}', 1 FROM generate_series(1, 10) AS n`,
    );
    const one = await startApp(own, SETTINGS, [MARKS]);
    try {
      const sessions = new Set<number>();
      await until(async () => {
        const hanging = await own.query<{ pid: number }>(
          `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'sluice engine'
             AND state = 'idle in transaction' AND clock_timestamp() - state_change > interval '1 second'`,
        );
        for (const { pid } of hanging) sessions.add(pid);
        return (await own.query(`SELECT FROM inbox WHERE status = 'dead'`)).length === 10;
      }, 50_000);
      // All together, and one alone: the server ended the session each time.
      expect(sessions.size).toBe(2);
    } finally {
      await one.close();
      await own.drop();
    }
  }, 40_000);

  it('does not block ?pending=true for others', async () => {
    const pending = replica.app.nest.get(Pending);
    const read = (key: string) =>
      pending.read(key, (manager) => manager.query('SELECT FROM mark WHERE key = $1', [key]));
    for (const key of ['stuck', 'fine']) {
      await replica.call('PUT', `/v1/keys/${key}/hold`, { body: { reason: 'in creation' } });
    }
    await post([
      { id: 'stuck', key: 'stuck', payload: { hangs: 'idle' } },
      { id: 'fine', key: 'fine', payload: {} },
    ]);
    const stuck = [read('stuck'), read('stuck')].map((one) => one.catch((error: Problem) => error));
    expect(await read('fine')).toHaveLength(1);
    for (const response of await Promise.all(stuck)) {
      expect(response).toBeInstanceOf(Problem);
      expect((response as Problem).problem).toBe('read-model-behind');
    }
  });
});
