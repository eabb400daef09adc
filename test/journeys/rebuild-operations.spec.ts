import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import pg from 'pg';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import { Database } from '../../src/database/database.ts';
import { Archive } from '../../src/history/archive.ts';
import { DiffTables } from '../../src/rebuild/diff-tables.ts';
import { HISTORY_PAGE } from '../../src/rebuild/history-source.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { metricsOf } from '../support/metrics.ts';
import { oneTableReadModel } from '../support/one-table-read-model.ts';
import { RebuildClient } from '../support/rebuild-client.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { startCli } from '../support/run-cli.ts';
import { until } from '../support/until.ts';

/** While a test has it, a batch that is `gated` waits before it applies anything. */
const GATE = 4712;
let gated = false;

@Denormalizer({ types: ['link'] })
@Injectable()
class Links {
  async apply({ id, key }: Message, tx: ReadModelTransaction) {
    if (gated) await tx.query('SELECT pg_advisory_xact_lock_shared($1)', [GATE]);
    await tx.query(
      `INSERT INTO chain AS known (key, hash) VALUES ($1, md5($2))
       ON CONFLICT (key) DO UPDATE SET hash = md5(known.hash || $2)`,
      [key, id],
    );
  }
}
const LINKS = oneTableReadModel('chain (key text PRIMARY KEY, hash text NOT NULL)', [Links]);
const SETTINGS = { INBOX_POLL: '20ms', HISTORY: '*=forever', EGRESS_ALLOW: '127.0.0.0/8' };
const MESSAGES = 200;

let database: TestDatabase;
let replica: TestApp;
let rebuild: RebuildClient;
let gate: pg.Client;
let receiver: Receiver;

beforeAll(async () => {
  database = await createDatabase();
  replica = await startApp(database, SETTINGS, [LINKS]);
  rebuild = new RebuildClient(replica);
  gate = new pg.Client({ connectionString: database.url });
  await gate.connect();
  receiver = await startReceiver();
  const body = { url: receiver.url, types: ['link'] };
  expect((await replica.call('PUT', '/v1/listeners/crm', { body })).status).toBe(201);
  await post(MESSAGES);
});
afterAll(async () => {
  await gate.end();
  await replica.close();
  await receiver.close();
  await database.drop();
});
afterEach(async () => {
  await openGate();
  const { status } = (await rebuild.latest()) ?? {};
  if (['switched', 'rolled-back'].includes(status)) await rebuild.act('/drop');
  else if (!['cancelled', 'dropped', undefined].includes(status)) await rebuild.act('/cancel');
});

let posted = 0;
async function post(count: number): Promise<void> {
  const messages = Array.from({ length: count }, () => ({
    id: `m-${++posted}`,
    type: 'link',
    key: `k-${posted % 250}`,
    payload: {},
  }));
  expect((await replica.call('POST', '/v1/messages/batch', { body: { messages } })).status).toBe(202);
  await until(
    async () =>
      (
        await database.query(
          `SELECT FROM inbox WHERE settled_at IS NULL UNION ALL SELECT FROM outbox WHERE settled_at IS NULL LIMIT 1`,
        )
      ).length === 0,
  );
}

async function closeGate(): Promise<void> {
  await gate.query('SELECT pg_advisory_lock($1)', [GATE]);
  gated = true;
}
async function openGate(): Promise<void> {
  gated = false;
  await gate.query('SELECT pg_advisory_unlock_all()');
}
const blocked = (locktype: string) =>
  until(
    async () =>
      (
        await gate.query('SELECT FROM pg_locks WHERE NOT granted AND locktype = ANY ($1)', [
          locktype.split(' '),
        ])
      ).rowCount,
  );

/** An operator waits for the batch in flight, before batches that begin later: advisory locks are granted in turn. */
const untilPausing = () =>
  until(
    async () =>
      (
        await gate.query(
          `SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND mode = 'ExclusiveLock'`,
        )
      ).rowCount,
  );

const sluice = (...given: string[]) => startCli(replica.url, ['rebuild', ...given]);
const run = (...given: string[]) => sluice(...given).ended;

describe('sluice rebuild', () => {
  it('starts, shows progress and the comparison, switches, rolls back and drops', async () => {
    expect(await run('tested', 'status')).toMatchObject({ code: 0, out: 'it was never rebuilt\n' });
    await database.query(`UPDATE tested.chain SET hash = 'wrong' WHERE key IN ('k-1', 'k-2')`);
    await database.query(`DELETE FROM tested.chain WHERE key = 'k-3'`);
    await closeGate();
    const started = sluice('tested', '--dry-run');
    await until(() => started.aside().includes(`replaying: 0 of ${MESSAGES}`));
    await openGate();
    const dry = await started.ended;
    expect([dry.code, dry.out]).toEqual([
      0,
      `ready: ${MESSAGES} of ${MESSAGES}\n  chain: 0 only in the old, 1 only in the new, 2 different\n`,
    ]);
    expect(dry.aside).toMatch(/100 % {2}ready: 200 of 200\n$/);

    const switched = await run('tested', 'switch');
    expect([switched.code, switched.out]).toEqual([
      0,
      expect.stringMatching(/^switched: 200 of 200\n.*\n {2}switched; no message was applied for \d+ ms\n$/s),
    ]);
    expect((await run('tested', 'rollback')).out).toMatch(/^rolled-back: 200 of 200\n/);
    expect(await database.query(`SELECT FROM tested.chain WHERE hash = 'wrong'`)).toHaveLength(2);
    expect((await run('tested', 'switch')).out).toMatch(/^switched: /);
    expect(await run('tested', 'drop')).toMatchObject({ code: 0, out: expect.stringMatching(/^dropped\n/) });
    expect(await database.query(`SELECT FROM tested.chain WHERE hash = 'wrong'`)).toEqual([]);
    expect(await database.query(`SELECT FROM pg_namespace WHERE nspname LIKE 'tested\\_\\_%'`)).toEqual([]);
  });

  it('refuses what the rebuild cannot do now, an unknown read model and an unknown action', async () => {
    expect(await run('tested', 'switch')).toMatchObject({
      code: 1,
      aside: expect.stringContaining('No rebuild of tested is open.'),
    });
    expect(await run('nobody')).toMatchObject({
      code: 1,
      aside: expect.stringContaining('there are: tested'),
    });
    expect((await run('tested', 'vanish')).code).toBe(2);
    expect(await run('tested', 'skip')).toMatchObject({
      code: 2,
      aside: expect.stringContaining('skip needs --reason'),
    });
    expect((await run()).code).toBe(2);
  });
});

describe('a rebuild', () => {
  it('makes no progress while it is paused; live messages do, and it goes on when it is resumed', async () => {
    await closeGate();
    await rebuild.act('', { dryRun: true });
    await blocked('advisory');
    const pausing = rebuild.act('/pause');
    await untilPausing();
    await openGate();
    expect(await pausing).toMatchObject({ status: 200 });
    const { done, total, paused } = await rebuild.latest();
    expect([paused, done < total, total]).toEqual([true, true, MESSAGES]);
    await post(5);
    await untilPassedAgain(3);
    expect((await rebuild.latest()).done).toBe(done);
    expect(await rebuild.act('/resume')).toMatchObject({ status: 200 });
    expect((await rebuild.reached('ready')).done).toBe(MESSAGES + 5);
  });

  it('delivers nothing: neither while it replays nor when it switches', async () => {
    const deliveries = () => database.query('SELECT position, status, attempt FROM outbox ORDER BY position');
    const [before, requests] = [await deliveries(), receiver.received.length];
    expect(before).toHaveLength(posted);
    await rebuild.act('', {});
    await rebuild.reached('switched');
    expect(await deliveries()).toEqual(before);
    await post(1);
    expect(await deliveries()).toHaveLength(posted);
    expect(receiver.received).toHaveLength(requests + 1);
  });

  it('is switched once by two operators at the same time; the other one is told why not', async () => {
    await rebuild.act('', { dryRun: true });
    await rebuild.reached('ready');
    const replies = await Promise.all([rebuild.act('/switch'), rebuild.act('/switch')]);
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 409]);
    expect(replies.find(({ status }) => status === 409)?.detail).toMatch(
      /^The rebuild of tested is (replaying|switching|switched): it cannot switch now\.$/,
    );
    await rebuild.reached('switched');
    const { items } = (await replica.call('GET', '/v1/audit?action=read-model.switch&limit=1')).body;
    const [{ n }] = (await database.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM audit WHERE action = 'read-model.switch' AND at >= $1`,
      [items[0].at],
    )) as [{ n: number }];
    expect(n).toBe(1);
  });
});

/** The loop of rebuilds has made so many more passes. */
async function untilPassedAgain(times: number): Promise<void> {
  const last = async () => (await metricsOf(replica))('loop_last_cycle_timestamp_seconds{loop="rebuild"}');
  for (let n = 0; n < times; n++) {
    const before = await last();
    await until(async () => (await last()) > before);
  }
}

describe('REBUILD_SHARE', () => {
  const PAGE = 7;

  afterAll(() => {
    HISTORY_PAGE.messages = 2_048;
  });

  it('lets a replica do a small part of a rebuild while live messages wait', async () => {
    const [small, large] = await Promise.all(
      ['1', '100'].map((share) => startApp(database, { ...SETTINGS, REBUILD_SHARE: share }, [LINKS])),
    );
    const { nest } = replica.app;
    const rows = await database.query<{ position: string }>('SELECT position FROM inbox');
    await database.query('TRUNCATE outbox');
    const positions = rows.map(({ position }) => Number(position));
    await nest.get(Database).transaction((tx) => nest.get(Archive).move(positions, tx));
    await replica.close();
    HISTORY_PAGE.messages = PAGE;
    // A lane that another replica has: its messages wait.
    await database.query(
      `UPDATE lane SET leased_until = now() + interval '1 hour' WHERE queue = 'inbox' AND lane = 0`,
    );
    await database.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload)
       SELECT 'w-' || i, 'test', 'link', 'waits', 0, '{}' FROM generate_series(1, 1200) AS i`,
    );
    const client = new RebuildClient(small!);
    const replayed = async () =>
      Promise.all(
        [small!, large!].map(async (one) => (await metricsOf(one))('rebuild_messages_total{model="tested"}')),
      );
    await client.act('', { dryRun: true });
    await client.reached('ready');
    const [few, many] = await replayed();
    expect(few! + many!).toBe(posted);
    expect(few! * 4).toBeLessThan(many!);
    await client.act('/cancel');
    [replica, rebuild] = [small!, client];
    await large!.close();
  });
});

describe('a step that fails because its rebuild was cancelled meanwhile', () => {
  it('is no failure: nothing is logged, and the next rebuild starts at once', async () => {
    const tables = DiffTables.prototype as unknown as { compareOne(...args: unknown[]): Promise<unknown> };
    const { compareOne } = tables;
    let error: unknown;
    tables.compareOne = async function (...args) {
      tables.compareOne = compareOne;
      try {
        // It is refused while something else has a lock of the tables, such as an autovacuum.
        await until(async () => (await rebuild.act('/cancel')).status === 200);
        return await compareOne.apply(this, args);
      } catch (thrown) {
        error = thrown;
        throw thrown;
      }
    };
    const before = replica.lines.length;
    expect(await rebuild.act('', { dryRun: true })).toMatchObject({ status: 202 });
    await until(() => error);
    await rebuild.act('', { dryRun: true });
    await rebuild.reached('ready');
    expect(replica.lines.slice(before).filter((line) => line.includes('rebuild.failed'))).toEqual([]);
    await rebuild.act('/cancel');
  });
});
