import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModel } from '../../src/contract/read-model.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import { ReadModelRegistry } from '../../src/rebuild/read-model-registry.ts';
import { RebuildStatements } from '../../src/rebuild/rebuild-statements.ts';
import { Switch } from '../../src/rebuild/switch.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { oneTableReadModel } from '../support/one-table-read-model.ts';
import { RebuildClient } from '../support/rebuild-client.ts';
import { openSession } from '../support/session.ts';
import { until } from '../support/until.ts';
import { untilSettled } from '../support/until-settled.ts';

let database: TestDatabase;
let app: TestApp;
let rebuilds: RebuildClient;
/** Calls of `prepare` while every lane was locked: while all live messages waited. */
let callsUnderLock = 0;

/** No batch of live messages locks all lanes. */
const ALL_LOCKED = `SELECT count(*) = 0 AS locked FROM (SELECT FROM lane WHERE queue = 'inbox' FOR SHARE SKIP LOCKED) AS free`;

@Denormalizer({ types: ['link'] })
@Injectable()
class SlowLinks {
  async prepare({ id }: Message): Promise<string> {
    const [row] = await database.query<{ locked: boolean }>(ALL_LOCKED);
    if (row!.locked) callsUnderLock += 1;
    // Another system takes its time.
    await pause(50);
    return id;
  }
  async apply({ key }: Message, tx: ReadModelTransaction, prepared: string): Promise<void> {
    await append(key, prepared, tx);
  }
}

@Denormalizer({ types: ['link'] })
@Injectable()
class Links {
  async apply({ id, key }: Message, tx: ReadModelTransaction): Promise<void> {
    await append(key, id, tx);
  }
}

/** A hash chain: it shows every message that is missing, applied twice or in another order. */
async function append(key: string, id: string, tx: ReadModelTransaction): Promise<void> {
  await tx.query(
    `INSERT INTO chain AS known (key, hash) VALUES ($1, md5($2))
     ON CONFLICT (key) DO UPDATE SET hash = md5(known.hash || $2)`,
    [key, id],
  );
}

const TABLE = 'chain (key text PRIMARY KEY, hash text NOT NULL)';

beforeEach(async () => {
  database = await createDatabase();
  callsUnderLock = 0;
});
afterEach(async () => {
  await app.close();
  await database.drop();
});

async function start(readModel: ReadModel, roles = 'api,inbox,upkeep'): Promise<void> {
  app = await startApp(database, { INBOX_POLL: '20ms', ROLES: roles }, [readModel]);
  rebuilds = new RebuildClient(app);
}

const settled = () => untilSettled(database);
const chains = (schema: string) => database.query(`SELECT key, hash FROM ${schema}.chain ORDER BY key`);

/** Several producers, each with its next message as soon as the last one is applied, until `work` is done. */
async function beside(work: () => Promise<unknown>): Promise<void> {
  const done = new AbortController();
  let posted = 0;
  const producers = Array.from({ length: 4 }, async () => {
    while (!done.signal.aborted) {
      const n = ++posted;
      const body = { id: `m-${n}`, type: 'link', key: `k-${n % 50}`, payload: {} };
      expect((await app.call('POST', '/v1/messages', { body })).status).toBe(202);
      await until(
        async () => (await app.call('GET', `/v1/messages/m-${n}`)).body.status === 'finished',
        60_000,
      );
    }
  });
  await until(() => posted > 20);
  try {
    await work();
  } finally {
    done.abort();
    await Promise.all(producers);
  }
}

describe('beside steady traffic of messages that need `prepare`', () => {
  it('a rebuild compares, switches and is rolled back, and calls nobody while live messages wait', async () => {
    await start(oneTableReadModel(TABLE, [SlowLinks]));
    await beside(async () => {
      await rebuilds.act('', {});
      await until(async () => (await rebuilds.latest()).status === 'switched');
      await rebuilds.act('/rollback');
      await until(async () => (await rebuilds.latest()).status === 'rolled-back');
    });
    await settled();
    await rebuilds.act('/switch');
    await rebuilds.reached('switched');
    expect(await chains('tested')).toEqual(await chains('tested__previous'));
    expect(callsUnderLock).toBe(0);
  });
});

describe('a rebuild', () => {
  it('switches although there is always a message that it has not applied yet', async () => {
    await start(oneTableReadModel(TABLE, [Links]));
    // As if each batch took as long as it takes for the next message to come.
    await database.query(`
      CREATE FUNCTION one_more() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF (SELECT status = 'replaying' FROM public.rebuild WHERE id = NEW.rebuild) THEN
          INSERT INTO public.inbox (id, source, type, key, lane, payload, status, applied, settled_at)
          VALUES (gen_random_uuid(), 's', 'link', 'k', NEW.lane, '{}', 'finished', nextval('public.inbox_applied_seq'), now());
        END IF;
        RETURN NULL;
      END $$`);
    await database.query(
      'CREATE TRIGGER one_more AFTER UPDATE ON rebuild_lane FOR EACH ROW WHEN (NEW.done > OLD.done) EXECUTE FUNCTION one_more()',
    );
    await app.call('POST', '/v1/messages', { body: { id: 'first', type: 'link', key: 'k', payload: {} } });
    await settled();
    await rebuilds.act('', {});
    await rebuilds.reached('switched');
  });

  it('switches beside many posts of single messages, and loses none', async () => {
    await start(oneTableReadModel(TABLE, [Links]));
    await beside(async () => {
      await rebuilds.act('', {});
      await rebuilds.reached('switched');
    });
    await settled();
    await rebuilds.act('/rollback');
    await rebuilds.reached('rolled-back');
    expect(await chains('tested')).toEqual(await chains('tested__next'));
  });

  it('applies at its switch what one lane has more than the others', async () => {
    await start(oneTableReadModel(TABLE, [Links]));
    await rebuilds.act('', { dryRun: true });
    await rebuilds.reached('ready');
    await app.close();
    await start(oneTableReadModel(TABLE, [Links]), 'api');
    await database.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, status, applied, settled_at)
       SELECT 'm-' || n, 's', 'link', 'k-' || lane, lane, '{}', 'finished', nextval('inbox_applied_seq'), now()
       FROM (SELECT n, CASE WHEN n <= 300 THEN 0 ELSE n - 300 END AS lane FROM generate_series(1, 330) AS n) AS messages`,
    );
    await database.query(`UPDATE rebuild SET status = 'switching'`);
    const { nest } = app.app;
    const [rebuild] = await nest.get(RebuildStatements).atWork();
    const pauseMs = await nest.get(Switch).run(rebuild!, nest.get(ReadModelRegistry).find('tested')!);
    expect(pauseMs).toBeGreaterThan(0);
    expect(await chains('tested')).toHaveLength(31);
  });

  it('is switched once by two replicas that try at the same time', async () => {
    await start(oneTableReadModel(TABLE, [Links]));
    await rebuilds.act('', { dryRun: true });
    await rebuilds.reached('ready');
    await app.close();
    await start(oneTableReadModel(TABLE, [Links]), 'api');
    const other = await startApp(database, { ROLES: 'api' }, [oneTableReadModel(TABLE, [Links])]);
    await database.query(`INSERT INTO tested.chain (key, hash) VALUES ('of the old one', '')`);
    await database.query(`UPDATE rebuild SET status = 'switching'`);
    const [rebuild] = await app.app.nest.get(RebuildStatements).atWork();
    const pauses = await Promise.all(
      [app, other].map(({ app: { nest } }) =>
        nest.get(Switch).run(rebuild!, nest.get(ReadModelRegistry).find('tested')!),
      ),
    );
    await other.close();
    expect(pauses.filter((pauseMs) => pauseMs !== undefined)).toHaveLength(1);
    expect([await chains('tested'), await chains('tested__previous')]).toEqual([
      [],
      [{ key: 'of the old one', hash: '' }],
    ]);
  });

  it('is switched as a whole although its session is lost between the two renames', async () => {
    await start(oneTableReadModel(TABLE, [Links]));
    await app.call('POST', '/v1/messages', { body: { id: 'first', type: 'link', key: 'k', payload: {} } });
    await settled();
    await rebuilds.act('', { dryRun: true });
    await rebuilds.reached('ready');
    await database.query(`UPDATE tested.chain SET hash = 'of the old one'`);
    const gate = await openSession(database);
    await gate.query('SELECT pg_advisory_lock(4713)');
    await database.query(`
      CREATE FUNCTION half_way() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(4713); END $$`);
    await database.query(
      `CREATE EVENT TRIGGER half_way ON ddl_command_end WHEN TAG IN ('ALTER SCHEMA') EXECUTE FUNCTION half_way()`,
    );
    await rebuilds.act('/switch');
    const ended = () =>
      database.query(
        `SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database ON pg_database.oid = database
         WHERE datname = current_database() AND locktype = 'advisory' AND objid = 4713 AND NOT granted`,
      );
    await until(async () => (await ended()).length > 0);
    await gate.close();
    await database.query('DROP EVENT TRIGGER half_way');
    await rebuilds.reached('switched');
    expect(await chains('tested__previous')).toEqual([{ key: 'k', hash: 'of the old one' }]);
    expect(await chains('tested')).toEqual([{ key: 'k', hash: expect.stringMatching(/^\w{32}$/) }]);
    await app.call('POST', '/v1/messages', { body: { id: 'second', type: 'link', key: 'k', payload: {} } });
    await settled();
    expect(await chains('tested__previous')).toEqual([{ key: 'k', hash: 'of the old one' }]);
  });
});
