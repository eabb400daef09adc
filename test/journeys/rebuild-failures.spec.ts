import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import type { MigrationInterface, QueryRunner } from 'typeorm';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import { Defer, Refuse } from '../../src/contract/outcomes.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import { BUILDER } from '../../src/rebuild/build.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { oneTableReadModel } from '../support/one-table-read-model.ts';
import { RebuildClient } from '../support/rebuild-client.ts';
import { openSession } from '../support/session.ts';
import { until } from '../support/until.ts';
import { untilSettled } from '../support/until-settled.ts';

/** How often each message still fails, by id: in `prepare` or in `apply`. */
const failsInPrepare = new Map<string, number>();
const failsInApply = new Map<string, number>();
/** Calls of `prepare` by id. */
const calls = new Map<string, number>();
let refuses = false;

function failOnce(of: Map<string, number>, id: string): void {
  const left = of.get(id) ?? 0;
  if (left === 0) return;
  of.set(id, left - 1);
  if (refuses) throw new Refuse('refused as planned');
  throw new Error('failed as planned');
}

@Denormalizer({ types: ['called'] })
@Injectable()
class Called {
  async prepare({ id }: Message): Promise<string> {
    calls.set(id, (calls.get(id) ?? 0) + 1);
    failOnce(failsInPrepare, id);
    return `prepared ${id}`;
  }
  async apply({ id }: Message, tx: ReadModelTransaction, prepared: string): Promise<void> {
    failOnce(failsInApply, id);
    await tx.query('INSERT INTO noted (id, note) VALUES ($1, $2)', [id, prepared]);
  }
}

@Denormalizer({ types: ['uncalled'], rebuild: { prepare: 'skip' } })
@Injectable()
class Uncalled {
  async prepare({ id }: Message): Promise<string> {
    calls.set(id, (calls.get(id) ?? 0) + 1);
    return 'prepared';
  }
  async apply({ id }: Message, tx: ReadModelTransaction, prepared?: string): Promise<void> {
    await tx.query('INSERT INTO noted (id, note) VALUES ($1, $2)', [id, prepared ?? 'not prepared']);
  }
}

/** Waits for another message, of whatever key. */
@Denormalizer({ types: ['waiting'] })
@Injectable()
class Waiting {
  async apply({ id, payload }: Message<{ for: string }>, tx: ReadModelTransaction): Promise<void> {
    const [other] = await tx.query('SELECT FROM noted WHERE id = $1', [payload.for]);
    if (!other) throw new Defer('20ms', `waits for ${payload.for}`);
    await tx.query(`INSERT INTO noted (id, note) VALUES ($1, 'waited')`, [id]);
  }
}

/** What a migration does beside creating tables, and how often it ran. */
let migrating: ((runner: QueryRunner) => Promise<unknown>) | undefined;
let migrated = 0;

class Gated1763251300901 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    migrated += 1;
    await migrating?.(runner);
  }
  async down() {}
}

const TABLE = oneTableReadModel('noted (id text PRIMARY KEY, note text NOT NULL)', [
  Called,
  Uncalled,
  Waiting,
]);
const NOTES = { ...TABLE, migrations: [...TABLE.migrations, Gated1763251300901] };
/** Of another read model. */
@Denormalizer({ types: ['called'] })
@Injectable()
class Others {
  async apply({ id }: Message, tx: ReadModelTransaction): Promise<void> {
    await tx.query('INSERT INTO other (id) VALUES ($1)', [id]);
  }
}
const OTHER = { ...oneTableReadModel('other (id text PRIMARY KEY)', [Others]), name: 'another' };
const SETTINGS = { INBOX_RETRY_SCHEDULE: '1ms,1ms,1ms', INBOX_POLL: '20ms' };

let database: TestDatabase;
let app: TestApp;
let rebuilds: RebuildClient;

beforeAll(async () => {
  database = await createDatabase();
  app = await startApp(database, SETTINGS, [NOTES, OTHER]);
  rebuilds = new RebuildClient(app);
});
afterAll(async () => {
  await app.close();
  await database.drop();
});
beforeEach(() => {
  refuses = false;
  migrating = undefined;
  migrated = 0;
  for (const map of [failsInPrepare, failsInApply, calls]) map.clear();
});

let posted = 0;
async function post(type: string, key: string, payload: object = {}): Promise<string> {
  const id = `m-${++posted}`;
  const { status } = await app.call('POST', '/v1/messages', { body: { id, type, key, payload } });
  expect(status).toBe(202);
  return id;
}

const settled = () => untilSettled(database);

async function posts(count: number, type = 'called'): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) ids.push(await post(type, `k-${n % 2}`));
  await settled();
  calls.clear();
  return ids;
}

const onlyOld = ({ diff }: { diff: { tables: { onlyOld: number }[] } }) => diff.tables[0]!.onlyOld;

/* Those that wait for others come last: they would hold up lanes of the other tests. */
describe('a message that fails in a rebuild', () => {
  it('is left out by `skip` also if its `prepare` fails', async () => {
    const [id] = await posts(3);
    failsInPrepare.set(id!, 1_000);
    await rebuilds.act('', { dryRun: true });
    expect((await rebuilds.reached('failed')).failure.id).toBe(id);
    await rebuilds.act('/skip', { reason: 'only a test' });
    const { leftOut, leftOutMessages, ...ready } = await rebuilds.reached('ready');
    expect([leftOut, onlyOld(ready)]).toEqual([1, 1]);
    expect(leftOutMessages).toEqual([
      {
        ...{ id, source: expect.stringMatching(/admin/), error: 'Error: failed as planned' },
        ...{ reason: 'only a test', by: 'admin', at: expect.stringMatching(/^20/) },
      },
    ]);
    await rebuilds.act('/cancel');
  });

  it('is left out once if its `prepare` fails and failures are recorded', async () => {
    const ids = await posts(4);
    for (const id of ids.slice(0, 2)) failsInPrepare.set(id, 1_000);
    await rebuilds.act('', { dryRun: true, recordFailures: true });
    const { leftOut, leftOutMessages } = await rebuilds.reached('ready');
    expect(leftOut).toBe(2);
    expect(leftOutMessages).toMatchObject(
      ids.slice(0, 2).map((id) => ({ id, reason: null, by: 'recordFailures' })),
    );
    await rebuilds.act('/cancel');
  });

  it('is retried as often as a live one before it stops the rebuild', async () => {
    const ids = await posts(4);
    failsInApply.set(ids[0]!, 4);
    failsInPrepare.set(ids[3]!, 3);
    await rebuilds.act('', { dryRun: true });
    const { leftOut, ...ready } = await rebuilds.reached('ready');
    expect([leftOut, onlyOld(ready)]).toEqual([0, 0]);
    await rebuilds.act('/cancel');
  });

  it('is not retried if it is refused', async () => {
    const [id] = await posts(1);
    refuses = true;
    failsInApply.set(id!, 1_000);
    await rebuilds.act('', { dryRun: true });
    expect((await rebuilds.reached('failed')).failure.error).toBe('Refuse: refused as planned');
    expect(await database.query('SELECT max(attempts) FROM rebuild_lane')).toEqual([{ max: 1 }]);
    await rebuilds.act('/cancel');
  });

  it('is tried again by `resume`, after the cause is gone', async () => {
    const [id] = await posts(2);
    failsInApply.set(id!, 1_000);
    await rebuilds.act('', { dryRun: true });
    await rebuilds.reached('failed');
    failsInApply.clear();
    expect(await rebuilds.act('/resume')).toMatchObject({ status: 200 });
    const { leftOut, failure, ...ready } = await rebuilds.reached('ready');
    expect([leftOut, failure, onlyOld(ready)]).toEqual([0, undefined, 0]);
    await rebuilds.act('/cancel');
  });

  it('no longer shows after the rollback that it stopped was cancelled', async () => {
    await rebuilds.act('', {});
    await rebuilds.reached('switched');
    const [id] = await posts(1);
    failsInApply.set(id!, 1_000);
    await rebuilds.act('/rollback');
    await rebuilds.reached('failed');
    await rebuilds.act('/cancel');
    const { status, failure, waitsFor } = await rebuilds.latest();
    expect([status, failure, waitsFor]).toEqual(['switched', undefined, undefined]);
    failsInApply.clear();
    await rebuilds.act('/drop');
  });
});

describe('a rebuild that is being built', () => {
  const { silentMs, pingMs } = BUILDER;
  afterEach(() => {
    Object.assign(BUILDER, { silentMs, pingMs });
  });

  it('is stopped by a migration that fails, and built again by `resume`', async () => {
    migrating = () => Promise.reject(new Error('fails as planned'));
    await rebuilds.act('', { dryRun: true });
    expect((await rebuilds.reached('failed')).failure.error).toMatch(
      /Gated1763251300901 failed .*fails as planned/,
    );
    migrating = undefined;
    await rebuilds.act('/resume');
    await rebuilds.reached('ready');
    await rebuilds.act('/cancel');
  });

  it('is built again by itself after a lock was not available', async () => {
    const other = await openSession(database);
    await other.query('SELECT pg_advisory_lock(4712)');
    migrating = (runner) => runner.query('SELECT pg_advisory_xact_lock(4712)');
    await rebuilds.act('', { dryRun: true });
    const reason = await until(async () => (await rebuilds.latest()).waitsFor);
    expect(reason).toMatch(/lock timeout.*; it tries again$/);
    await other.close();
    await rebuilds.reached('ready');
    expect(migrated).toBeGreaterThan(1);
    await rebuilds.act('/cancel');
  });

  const builders = (since: string) =>
    database.query(`SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'sluice engine'
      AND state = 'idle in transaction' AND xact_start < clock_timestamp() - interval '${since}'`);

  it.each([
    ['may take longer than its builder may be silent', 300, 1],
    ['is left to another builder if that one is frozen', 60_000, 2],
  ])('%s', async (_, pings, times) => {
    Object.assign(BUILDER, { silentMs: 3_000, pingMs: pings });
    const isFrozen = times > 1;
    migrating = async () => {
      migrating = undefined;
      await until(async () => (await builders('0s')).length > 0);
      await until(async () =>
        isFrozen ? (await builders('0s')).length === 0 : (await builders('6s')).length > 0,
      );
    };
    await rebuilds.act('', { dryRun: true });
    await rebuilds.reached('ready');
    expect(migrated).toBe(times);
    await rebuilds.act('/cancel');
  });
});

describe('a full disk', () => {
  const FULL = `RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'`;

  it('holds up a rebuild that is being built, which says so and goes on by itself', async () => {
    await database.query(
      `CREATE FUNCTION full_disk() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN IF current_query() LIKE '%noted%' THEN ${FULL}; END IF; END $$`,
    );
    await database.query(
      `CREATE EVENT TRIGGER full_disk ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION full_disk()`,
    );
    await rebuilds.act('', { dryRun: true });
    const reason = await until(async () => (await rebuilds.latest()).waitsFor);
    await database.query('DROP EVENT TRIGGER full_disk');
    expect(reason).toMatch(/No space left on device.*it tries again$/);
    expect(onlyOld(await rebuilds.reached('ready'))).toBe(0);
  });

  it('holds up a rebuild half way, which says so and goes on by itself', async () => {
    await database.query(
      `CREATE FUNCTION full_table() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${FULL}; END $$`,
    );
    await database.query(
      'CREATE TRIGGER disk_full BEFORE INSERT ON tested__next.noted FOR EACH ROW EXECUTE FUNCTION full_table()',
    );
    const before = await rebuilds.latest();
    const [id] = await posts(1);
    const reason = await until(async () => (await rebuilds.latest()).waitsFor);
    expect([before.waitsFor, reason]).toEqual([
      undefined,
      expect.stringMatching(/No space left on device; it tries again$/),
    ]);
    expect((await rebuilds.latest()).status).toBe('ready');
    await database.query('DROP TRIGGER disk_full ON tested__next.noted');
    await until(
      async () => (await database.query('SELECT FROM tested__next.noted WHERE id = $1', [id])).length === 1,
    );
    await until(async () => (await rebuilds.latest()).waitsFor === undefined);
    await rebuilds.act('/cancel');
  });

  it('of one rebuild does not hold up another', async () => {
    await posts(2);
    await rebuilds.act('', { dryRun: true });
    await rebuilds.reached('ready');
    await database.query(
      'CREATE TRIGGER disk_full BEFORE INSERT ON tested__next.noted FOR EACH ROW EXECUTE FUNCTION full_table()',
    );
    await posts(1);
    const other = new RebuildClient(app, 'another');
    await other.act('', {});
    await other.reached('switched');
    expect((await rebuilds.latest()).waitsFor).toMatch(/No space left on device; it tries again$/);
    await other.act('/drop');
    await rebuilds.act('/cancel');
  });
});

describe('`prepare` in a rebuild', () => {
  it('is called once per message, also if the batch is split', async () => {
    const ids = await posts(8);
    refuses = true;
    failsInApply.set(ids[5]!, 1_000);
    await rebuilds.act('', { dryRun: true, partial: true });
    await rebuilds.reached('failed');
    expect(ids.slice(0, 5).map((id) => calls.get(id))).toEqual([1, 1, 1, 1, 1]);
    await rebuilds.act('/cancel');
  });

  it('is not called if the author says so', async () => {
    const [id] = await posts(1, 'uncalled');
    await rebuilds.act('', { dryRun: true, partial: true });
    await rebuilds.reached('ready');
    expect(calls.get(id!)).toBeUndefined();
    expect(await database.query('SELECT note FROM tested__next.noted WHERE id = $1', [id])).toEqual([
      { note: 'not prepared' },
    ]);
    await rebuilds.act('/cancel');
  });
});

describe('in a rebuild, a message that waits for another', () => {
  it('does not stop it', async () => {
    const other = await post('uncalled', 'k-other');
    for (let n = 0; n < 40; n++) await post('waiting', `k-${n}`, { for: other });
    await settled();
    // The other one is applied last: it failed before, and was retried.
    await database.query(`UPDATE inbox SET applied = (SELECT max(applied) + 1 FROM inbox) WHERE id = $1`, [
      other,
    ]);
    await rebuilds.act('', { dryRun: true });
    const { leftOut, ...ready } = await rebuilds.reached('ready');
    expect([leftOut, onlyOld(ready)]).toEqual([0, 0]);
    await rebuilds.act('/cancel');
  });

  it('stops it if nothing else is left that it could wait for', async () => {
    const other = await post('uncalled', 'k-removed');
    const id = await post('waiting', 'k-waits', { for: other });
    await settled();
    await database.query('DELETE FROM inbox WHERE id = $1', [other]);
    await rebuilds.act('', { dryRun: true, partial: true });
    const { failure } = await rebuilds.reached('failed');
    expect(failure).toMatchObject({ id, error: expect.stringContaining(`waits for ${other}`) });
    await rebuilds.act('/cancel');
  });
});
