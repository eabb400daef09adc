import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { IsInt, IsOptional, IsString } from 'class-validator';
import supertest from 'supertest';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import { Refuse } from '../../src/contract/outcomes.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import { GUARDS } from '../../src/lanes/lease.ts';
import { ADMIN_KEY, startApp } from '../support/app.ts';
import { createDatabase } from '../support/database.ts';
import { metricsText } from '../support/metrics.ts';
import { oneTableReadModel } from '../support/one-table-read-model.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';
import { untilSettled } from '../support/until-settled.ts';

type Entry = { n: number; fail?: 'always' | 'twice' | 'refuse' };

const INSERT = 'INSERT INTO ledger (by, key, n) VALUES ($1, $2, $3)';

@Denormalizer({ types: ['ledger'], order: 1 })
@Injectable()
class First {
  async apply({ key, payload, attempt }: Message<Entry>, tx: ReadModelTransaction): Promise<void> {
    await tx.query(INSERT, ['first', key, payload.n]);
    if (payload.fail === 'refuse') throw new Refuse('not wanted');
    if (payload.fail === 'always' || (payload.fail === 'twice' && attempt < 3)) throw new Error('no luck');
  }
}

@Denormalizer({ types: ['ledger'], order: 2 })
@Injectable()
class Second {
  async apply({ key, payload }: Message<Entry>, tx: ReadModelTransaction): Promise<void> {
    await tx.query(INSERT, ['second', key, payload.n]);
  }
}

class Checked {
  @IsInt()
  n!: number;
  @IsOptional()
  @IsString()
  fail?: 'twice';
}

@Denormalizer({ types: ['checked'], payload: Checked })
@Injectable()
class Third extends First {}

@Denormalizer({ types: ['edit'], coalesce: { edit: 'ledger-edit' } })
@Injectable()
class Edits extends First {}

const END_SESSION = 'SELECT pg_terminate_backend(pg_backend_pid())';

/** Fails like a connection: its own to another system, or, once, the one of the service. */
@Denormalizer({ types: ['connected'] })
@Injectable()
class Connected {
  private readonly cut = new Set<string>();

  async apply({ key }: Message, tx: ReadModelTransaction): Promise<void> {
    if (key === 'elsewhere')
      throw Object.assign(new Error('connect ECONNREFUSED 10.0.0.1:443'), { code: 'ECONNREFUSED' });
    if (this.cut.has(key)) return;
    this.cut.add(key);
    if (key === 'query') await tx.query(END_SESSION);
    else await tx.manager.query(END_SESSION);
  }
}

/** Calls of prepare that hang until the test releases them. */
const hanging: (() => void)[] = [];

@Denormalizer({ types: ['slow'] })
@Injectable()
class Slow {
  async prepare(): Promise<string> {
    await new Promise<void>((resolve) => hanging.push(resolve));
    return 'prepared';
  }
  async apply({ key }: Message, tx: ReadModelTransaction, prepared: string): Promise<void> {
    await tx.query(INSERT, [prepared, key, 0]);
  }
}

const LEDGER = oneTableReadModel('ledger (at bigserial, by text, key text, n int, CHECK (n <> 13))', [
  First,
  Second,
  Third,
  Edits,
  Connected,
  Slow,
]);
const SETTINGS = { INBOX_RETRY_SCHEDULE: '1ms,1ms', INBOX_POLL: '20ms' };
/** Without the alerts of dead letters, which are messages, too. */
const NO_ALERTS = { ...SETTINGS, ROLES: 'api,inbox' };

const { database, replica, start } = sharedReplica(SETTINGS, [LEDGER]);

const post = async (id: string, key: string, payload: Entry, type = 'ledger') => {
  const response = await replica.call('POST', '/v1/messages', { body: { id, key, type, payload } });
  expect(response.status).toBe(202);
};
const story = async (id: string) => (await replica.call('GET', `/v1/messages/${id}`)).body;
const ended = (id: string, status: string) => until(async () => (await story(id)).status === status);
const ledger = (key: string) =>
  database.query<{ by: string; n: number }>('SELECT by, n FROM ledger WHERE key = $1 ORDER BY at', [key]);
const counter = async (name: string) => {
  const text = await metricsText(replica);
  const lines = text.split('\n').filter((line) => line.startsWith(name));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
};

describe('processing', () => {
  it('D2 A3 A8 finishes every posted message once, with several workers on several replicas', async () => {
    const other = await startApp(database, { ...SETTINGS, INBOX_WORKERS: '4' }, [LEDGER]);
    const messages = Array.from({ length: 600 }, (_, n) => ({
      id: `m-${n}`,
      key: `k-${n % 50}`,
      type: 'ledger',
      payload: { n: 100 + n },
    }));
    await supertest(replica.url)
      .post('/v1/messages/batch')
      .auth(ADMIN_KEY, { type: 'bearer' })
      .send({ messages })
      .expect(202);
    await until(async () => {
      const rows = await database.query(`SELECT 1 FROM inbox WHERE id LIKE 'm-%' AND status = 'finished'`);
      return rows.length === 600;
    });
    await other.close();
    const rows = await database.query(`SELECT n FROM ledger WHERE by = 'first' AND n BETWEEN 100 AND 699`);
    expect(rows).toHaveLength(600);
  });

  it('E2 lease, attempts, batch size and concurrency are settings', async () => {
    const own = await createDatabase();
    const settings = {
      INBOX_LEASE: '7s',
      INBOX_RETRY_SCHEDULE: '1ms',
      INBOX_BATCH_MESSAGES: '4',
      INBOX_WORKERS: '3',
    };
    const set = await startApp(own, settings, [LEDGER]);
    const many = Array.from({ length: 40 }, (_, n) => ({
      type: 'ledger',
      key: 'k',
      payload: { n: n + 100 },
    }));
    const failing = { id: 'f', type: 'ledger', key: 'f', payload: { n: 1, fail: 'always' } };
    const slow = { type: 'slow', key: 's', payload: {} };
    await set.call('POST', '/v1/messages/batch', { body: { messages: many } });
    await until(async () => (await own.query(`SELECT FROM ledger WHERE by = 'first'`)).length === 40);
    const batches = await own.query<{ size: number }>(
      `SELECT count(*)::int AS size FROM ledger WHERE by = 'first' GROUP BY xmin ORDER BY size DESC`,
    );
    expect(batches[0]!.size).toBe(4);
    await set.call('POST', '/v1/messages/batch', { body: { messages: [failing, slow] } });
    await until(async () => (await set.call('GET', '/v1/messages/f')).body.status === 'dead');
    expect((await set.call('GET', '/v1/messages/f')).body.attempt).toBe(2);
    await until(() => hanging.length === 1);
    const [lane] = await own.query<{ seconds: number }>(
      `SELECT extract(epoch FROM leased_until - now())::float8 AS seconds FROM lane WHERE token IS NOT NULL`,
    );
    expect(lane!.seconds).toBeGreaterThan(0);
    expect(lane!.seconds).toBeLessThanOrEqual(7);
    const workers = (await set.call('GET', '/metrics')).text.match(/loop_last_cycle\S+loop="inbox-\d+"/g);
    expect(workers).toHaveLength(3);
    hanging.shift()!();
    await set.close();
    await own.drop();
  });

  it('A7 applies the messages of one key in the order accepted', async () => {
    for (let n = 1; n <= 20; n++) await post(`o-${n}`, 'ordered', { n: n + 100 });
    await ended('o-20', 'finished');
    const rows = (await ledger('ordered')).filter(({ by }) => by === 'first');
    expect(rows.map(({ n }) => n)).toEqual(Array.from({ length: 20 }, (_, n) => n + 101));
  });

  it('A2 D4 runs the denormalizers of the type, in order', async () => {
    await post('turn', 'turn', { n: 1 });
    await ended('turn', 'finished');
    expect(await ledger('turn')).toEqual([
      { by: 'first', n: 1 },
      { by: 'second', n: 1 },
    ]);
  });

  it('D4 is all or nothing: a message that fails leaves no trace in the read model', async () => {
    await post('bad', 'bad', { n: 1, fail: 'always' });
    await ended('bad', 'dead');
    expect(await ledger('bad')).toEqual([]);
  });

  it('A4 A5 counts the attempts, stops after the schedule, keeps the dead letter, counts and logs every failure', async () => {
    const before = await counter('sluice_inbox_attempts_failed_total');
    await post('tried', 'tried', { n: 2, fail: 'always' });
    await ended('tried', 'dead');
    expect(await story('tried')).toMatchObject({ attempt: 3, error: 'Error: no luck' });
    expect((await counter('sluice_inbox_attempts_failed_total')) - before).toBe(3);
    const events = replica.lines.map((line) => JSON.parse(line)).filter(({ id }) => id === 'tried');
    expect(events.map(({ event }) => event)).toEqual(['inbox.retry', 'inbox.retry', 'inbox.dead']);
    const dead = await replica.call('GET', '/v1/messages?status=dead&key=tried');
    expect(dead.body.items).toHaveLength(1);
  });

  it('retries and succeeds', async () => {
    await post('third', 'third', { n: 3, fail: 'twice' });
    await ended('third', 'finished');
    expect(await story('third')).toMatchObject({ attempt: 3, error: null });
    expect(await ledger('third')).toHaveLength(2);
  });

  it('charges only the failed message of a batch, and holds only its key', async () => {
    const messages = Array.from({ length: 40 }, (_, n) => ({
      id: `g-${n}`,
      key: `g-${n % 10}`,
      type: 'ledger',
      payload: n === 13 ? { n: 13 } : { n: n + 1000 },
    }));
    await replica.call('POST', '/v1/messages/batch', { body: { messages } });
    await ended('g-13', 'dead');
    await until(async () => (await story('g-39')).status === 'finished');
    const rows = await database.query<{ id: string; status: string; attempt: number }>(
      `SELECT id, status, attempt FROM inbox WHERE id LIKE 'g-%' AND (status <> 'finished' OR attempt <> 1) ORDER BY position`,
    );
    expect(rows).toEqual([
      { id: 'g-13', status: 'dead', attempt: 3 },
      { id: 'g-23', status: 'held', attempt: 0 },
      { id: 'g-33', status: 'held', attempt: 0 },
    ]);
    const why = await replica.call('GET', '/v1/messages/g-23/why');
    expect(why.body.waitsFor).toMatchObject({ kind: 'hold', reason: 'dead-letter', deadLetter: 'g-13' });
    await replica.call('DELETE', '/v1/keys/g-3/hold');
    await ended('g-33', 'finished');
  });

  it('holds nothing for a dead letter without a key, whatever the keys of other messages are', async () => {
    const event = (source: string, data: unknown) =>
      replica.call('POST', '/v1/messages', {
        headers: { 'content-type': 'application/cloudevents+json' },
        body: { specversion: '1.0', type: 'ledger', id: 'alone', source, data },
      });
    await event('/a', { n: 13 });
    const statusOf = async (source: string) =>
      (await replica.call('GET', `/v1/messages/alone?source=${source}`)).body.status;
    await until(async () => (await statusOf('/a')) === 'dead');
    await event('/b', { n: 14 });
    await post('keyed', 'alone', { n: 15 });
    await until(async () => (await statusOf('/b')) === 'finished');
    await ended('keyed', 'finished');
  });

  it('A7 keeps the order when an earlier message of the key fails only when it is retried without the later one', async () => {
    const messages = [{ n: 1, fail: 'twice' }, { n: 'none' }, { n: 3 }].map((payload, n) => ({
      id: `p-${n}`,
      key: 'p',
      type: 'checked',
      payload,
    }));
    await replica.call('POST', '/v1/messages/batch', { body: { messages } });
    await ended('p-1', 'dead');
    expect(await story('p-0')).toMatchObject({ status: 'finished', attempt: 3 });
    expect(await story('p-2')).toMatchObject({ status: 'held', attempt: 0 });
  });

  it('retries a message whose connection to another system failed, like any failure', async () => {
    await post('elsewhere', 'elsewhere', { n: 1 }, 'connected');
    await ended('elsewhere', 'dead');
    expect(await story('elsewhere')).toMatchObject({
      attempt: 3,
      error: 'Error: connect ECONNREFUSED 10.0.0.1:443',
    });
  });

  it.each(['query', 'manager'])(
    'charges no message for a broken connection of the service (tx.%s)',
    async (by) => {
      await post(`cut-${by}`, by, { n: 1 }, 'connected');
      await ended(`cut-${by}`, 'finished');
      expect(await story(`cut-${by}`)).toMatchObject({ attempt: 1, error: null });
    },
  );

  it('C2 A9 applies an edit whose later replacement expires while their key waits', async () => {
    const own = await createDatabase();
    const patient = await startApp(own, { ...SETTINGS, INBOX_RETRY_SCHEDULE: '700ms,700ms' }, [LEDGER]);
    const [{ soon }] = (await own.query(`SELECT now() + interval '500 ms' AS soon`)) as [{ soon: Date }];
    const messages = [
      { id: 'fails', type: 'ledger', payload: { n: 1, fail: 'twice' } },
      { id: 'edit-1', type: 'edit', payload: { n: 2 } },
      { id: 'edit-2', type: 'edit', payload: { n: 3 }, expiresAt: soon.toISOString() },
    ].map((message) => ({ key: 'k', ...message }));
    await patient.call('POST', '/v1/messages/batch', { body: { messages } });
    await untilSettled(own);
    const rows = await own.query<{ id: string; status: string }>(
      'SELECT id, status FROM inbox ORDER BY position',
    );
    await patient.close();
    await own.drop();
    expect(rows.map(({ status }) => status)).toEqual(['finished', 'finished', 'expired']);
  });

  it('makes a refused message dead at once', async () => {
    await post('refused', 'refused', { n: 1, fail: 'refuse' });
    await ended('refused', 'dead');
    expect(await story('refused')).toMatchObject({ attempt: 1, error: 'Refuse: not wanted' });
  });

  it('A12 finishes a message of an unhandled type, counted', async () => {
    const before = await counter('sluice_messages_unhandled_total');
    await post('unhandled', 'unhandled', { n: 1 }, 'nobody/wants');
    await ended('unhandled', 'finished');
    expect((await counter('sluice_messages_unhandled_total')) - before).toBe(1);
  });

  it('A12 warns of an unhandled type once per process, and of a limited number of types', async () => {
    const warned = () =>
      replica.lines
        .map((line) => JSON.parse(line))
        .filter(({ event }) => event === 'inbox.unhandled')
        .flatMap(({ level, types }) => (level === 'warn' ? (types as string[]) : []));
    for (const id of ['first', 'second']) {
      await post(`unhandled-${id}`, 'unhandled', { n: 1 }, 'nobody/knows');
      await ended(`unhandled-${id}`, 'finished');
    }
    expect(warned().filter((type) => type === 'nobody/knows')).toHaveLength(1);
    for (const part of [0, 1]) {
      const messages = Array.from({ length: 600 }, (_, n) => ({
        type: `nobody/${part}-${n}`,
        payload: null,
      }));
      await replica.call('POST', '/v1/messages/batch', { body: { messages } });
    }
    await until(async () => {
      const open = await database.query(
        `SELECT FROM inbox WHERE type LIKE 'nobody/%' AND settled_at IS NULL`,
      );
      return open.length === 0;
    });
    await until(() => warned().length >= 1_000);
    expect(warned()).toHaveLength(1_000);
  });

  it('A14 continues with other messages while ten prepare calls hang', async () => {
    for (let n = 0; n < 10; n++) await post(`slow-${n}`, `slow-${n}`, { n }, 'slow');
    await until(() => hanging.length === 10);
    const messages = Array.from({ length: 200 }, (_, n) => ({
      id: `f-${n}`,
      key: `f-${n}`,
      type: 'ledger',
      payload: { n: n + 1000 },
    }));
    await replica.call('POST', '/v1/messages/batch', { body: { messages } });
    const lanes = await database.query<{ lane: number }>(
      `SELECT DISTINCT lane FROM inbox WHERE id LIKE 'slow-%'`,
    );
    const blocked = lanes.map(({ lane }) => lane);
    await until(async () => {
      const waiting = await database.query(
        `SELECT 1 FROM inbox WHERE id LIKE 'f-%' AND status <> 'finished' AND lane <> ALL ($1::int[])`,
        [blocked],
      );
      return waiting.length === 0;
    });
    expect(hanging).toHaveLength(10);
    for (const release of hanging.splice(0)) release();
    await ended('slow-9', 'finished');
    expect(await ledger('slow-9')).toEqual([{ by: 'prepared', n: 0 }]);
  });

  it('D3 claims outside the processing transaction: the status is processing while the message is handled', async () => {
    await post('marked', 'marked', { n: 0 }, 'slow');
    await until(() => hanging.length === 1);
    expect(await story('marked')).toMatchObject({ status: 'processing', attempt: 1 });
    for (const release of hanging.splice(0)) release();
    await ended('marked', 'finished');
  });

  it('A14 limits the concurrent prepare calls, however many messages wait in one lane', async () => {
    const own = await createDatabase();
    const few = await startApp(own, { ...SETTINGS, INBOX_PREPARE_CONCURRENCY: '2' }, [LEDGER]);
    const messages = Array.from({ length: 5 }, () => ({ key: 'k', type: 'slow', payload: {} }));
    await few.call('POST', '/v1/messages/batch', { body: { messages } });
    for (const most of [2, 2, 1]) {
      await until(() => hanging.length >= most);
      expect(hanging).toHaveLength(most);
      for (const release of hanging.splice(0)) release();
    }
    await until(async () => (await own.query('SELECT FROM ledger')).length === 5);
    await few.close();
    await own.drop();
  });

  it('A9 A14 expires a message while it waits for its prepare, without the call', async () => {
    const own = await createDatabase();
    const few = await startApp(own, { ...SETTINGS, INBOX_PREPARE_CONCURRENCY: '1' }, [LEDGER]);
    const [{ soon }] = (await own.query(`SELECT now() + interval '400 ms' AS soon`)) as [{ soon: Date }];
    const messages = [
      { id: 'first', key: 'k', type: 'slow', payload: {} },
      { id: 'late', key: 'k', type: 'slow', payload: {}, expiresAt: soon.toISOString() },
      { id: 'last', key: 'k', type: 'slow', payload: {} },
    ];
    await few.call('POST', '/v1/messages/batch', { body: { messages } });
    await until(() => hanging.length === 1);
    await until(async () => (await own.query('SELECT WHERE now() > $1', [soon])).length > 0);
    for (let calls = 0; calls < 2; calls++) {
      await until(() => hanging.length === 1);
      hanging.pop()!();
    }
    const statuses = () => own.query(`SELECT id, status, attempt FROM inbox ORDER BY position`);
    await until(async () => (await own.query('SELECT FROM ledger')).length === 2);
    await untilSettled(own);
    expect(await statuses()).toEqual([
      { id: 'first', status: 'finished', attempt: 1 },
      { id: 'late', status: 'expired', attempt: 0 },
      { id: 'last', status: 'finished', attempt: 1 },
    ]);
    await few.close();
    await own.drop();
  });

  it('A13 E7 gives back messages that wait for prepare when it stops, uncharged', async () => {
    const leaving = await startApp(database, SETTINGS, [LEDGER]);
    await replica.close();
    const response = await leaving.call('POST', '/v1/messages', {
      body: { id: 'given-back', key: 'given-back', type: 'slow', payload: {} },
    });
    expect(response.status).toBe(202);
    await until(() => hanging.length === 1);
    await leaving.close();
    const [row] = await database.query(`SELECT status, attempt FROM inbox WHERE id = 'given-back'`);
    expect(row).toEqual({ status: 'pending', attempt: 0 });
    const [lanes] = await database.query(
      `SELECT count(*)::int AS n FROM lane WHERE leased_until > '-infinity'`,
    );
    expect(lanes).toEqual({ n: 0 });
    hanging.splice(0);
    await start();
    await until(() => hanging.length === 1);
    for (const release of hanging.splice(0)) release();
    await ended('given-back', 'finished');
  });

  it('A14 keeps the lane of a prepare that takes longer than the lease, though another replica polls', async () => {
    const own = await createDatabase();
    const replicas = [
      await startApp(own, SETTINGS, [LEDGER], { inboxLease: 600 }),
      await startApp(own, SETTINGS, [LEDGER], { inboxLease: 600 }),
    ];
    const [began] = await own.query<{ at: Date }>('SELECT now() AS at');
    await replicas[0]!.call('POST', '/v1/messages', { body: { id: 'm', type: 'slow', payload: {} } });
    const longer = `SELECT WHERE now() > $1::timestamptz + interval '2 seconds'`;
    await until(async () => (await own.query(longer, [began!.at])).length > 0);
    const calls = hanging.length;
    for (const release of hanging.splice(0)) release();
    await until(async () => (await own.query(`SELECT FROM inbox WHERE status = 'finished'`)).length === 1);
    const [row] = await own.query('SELECT attempt FROM inbox');
    for (const one of replicas) await one.close();
    await own.drop();
    expect([calls, row]).toEqual([1, { attempt: 1 }]);
  });

  it('counts a prepare that does not end in time as a failed attempt', async () => {
    const own = await createDatabase();
    const hasty = await startApp(own, { ...NO_ALERTS, INBOX_RETRY_SCHEDULE: '1ms' }, [LEDGER], {
      inboxPrepareTimeout: 100,
    });
    await hasty.call('POST', '/v1/messages', { body: { id: 'm', type: 'slow', payload: {} } });
    await until(async () => (await own.query(`SELECT FROM inbox WHERE status = 'dead'`)).length === 1);
    const [row] = await own.query('SELECT attempt, error FROM inbox');
    await hasty.close();
    await own.drop();
    hanging.splice(0);
    expect(row).toEqual({ attempt: 2, error: 'Error: prepare took too long or was stopped' });
  });

  /** Handled by another replica while its prepare hung: when it returns, the lane has another holder and the row is finished. */
  async function overtaken(): Promise<number> {
    const own = await createDatabase();
    const slow = await startApp(own, SETTINGS, [LEDGER]);
    await slow.call('POST', '/v1/messages', { body: { id: 'm', key: 'm', type: 'slow', payload: {} } });
    await until(() => hanging.length === 1);
    await own.query(`UPDATE lane SET token = gen_random_uuid() WHERE token IS NOT NULL`);
    await own.query(`UPDATE inbox SET status = 'finished', settled_at = now()`);
    await own.query(INSERT, ['elsewhere', 'm', 0]);
    hanging.pop()!();
    await until(async () => {
      const { text } = await slow.call('GET', '/metrics');
      const ends = /^sluice_(inbox_batch_seconds_count|fenced_writes_total\{stage="inbox"\}) [1-9]/m;
      return ends.test(text);
    });
    await slow.close();
    const rows = await own.query('SELECT FROM ledger');
    await own.drop();
    return rows.length;
  }

  it('applies nothing twice because of the finish count, without the fence', async () => {
    GUARDS.fence = false;
    expect(await overtaken().finally(() => Object.assign(GUARDS, { fence: true }))).toBe(1);
  });

  it('would apply it twice without both', async () => {
    Object.assign(GUARDS, { fence: false, settledCount: false });
    const restore = () => Object.assign(GUARDS, { fence: true, settledCount: true });
    expect(await overtaken().finally(restore)).toBe(2);
  });

  it('continues behind a dead letter if it is set to skip them', async () => {
    const own = await createDatabase();
    const skipping = await startApp(own, { ...NO_ALERTS, INBOX_ON_DEAD: 'skip' }, [LEDGER]);
    const messages = [{ n: 1 }, { n: 2, fail: 'refuse' }, { n: 3 }].map((payload) => ({
      key: 'k',
      type: 'ledger',
      payload,
    }));
    await skipping.call('POST', '/v1/messages/batch', { body: { messages } });
    await untilSettled(own);
    const rows = await own.query<{ status: string }>('SELECT status FROM inbox ORDER BY position');
    const holds = await own.query('SELECT FROM hold');
    await skipping.close();
    await own.drop();
    expect(rows.map(({ status }) => status)).toEqual(['finished', 'dead', 'finished']);
    expect(holds).toEqual([]);
  });

  it('A12 makes a message of an unhandled type dead if it is set so', async () => {
    const own = await createDatabase();
    const strict = await startApp(own, { ...NO_ALERTS, INBOX_UNHANDLED: 'dead' }, [LEDGER]);
    const messages = ['nobody/wants', 'ledger'].map((type) => ({ type, payload: { n: 1 } }));
    await strict.call('POST', '/v1/messages/batch', { body: { messages } });
    await untilSettled(own);
    const rows = await own.query('SELECT status, attempt, error FROM inbox ORDER BY position');
    await strict.close();
    await own.drop();
    expect(rows).toEqual([
      { status: 'dead', attempt: 1, error: 'Refuse: no denormalizer handles the type "nobody/wants"' },
      { status: 'finished', attempt: 1, error: null },
    ]);
  });

  it('counts a lane once that is lost while a prepare hangs', async () => {
    const own = await createDatabase();
    const holder = await startApp(own, SETTINGS, [LEDGER], { inboxLease: 1_500 });
    const lost = async () => {
      const text = await metricsText(holder);
      return Number(/^sluice_leases_lost_total\{stage="inbox"\} (\d+)$/m.exec(text)![1]);
    };
    await holder.call('POST', '/v1/messages', { body: { id: 'm', key: 'm', type: 'slow', payload: {} } });
    await until(() => hanging.length === 1);
    await own.query(
      `UPDATE lane SET token = gen_random_uuid(), leased_until = now() + interval '1 hour' WHERE token IS NOT NULL`,
    );
    await until(async () => (await lost()) > 0);
    for (const release of hanging.splice(0)) release();
    await until(() => holder.lines.some((line) => line.includes('inbox.lease-lost')));
    const counted = await lost();
    await holder.close();
    await own.drop();
    expect(counted).toBe(1);
  });

  it('E9 runs no inbox loop without the role', async () => {
    await replica.close();
    const apiOnly = await startApp(database, { ...SETTINGS, ROLES: 'api' }, [LEDGER]);
    await apiOnly.call('POST', '/v1/messages', { body: { id: 'alone', type: 'ledger', payload: { n: 1 } } });
    const text = (await apiOnly.call('GET', '/metrics')).text;
    expect(text).not.toMatch(/loop="inbox/);
    await apiOnly.close();
    await start();
    await ended('alone', 'finished');
  });
});
