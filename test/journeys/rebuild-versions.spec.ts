import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import type { MigrationInterface, QueryRunner } from 'typeorm';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModel } from '../../src/contract/read-model.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { oneTableReadModel } from '../support/one-table-read-model.ts';
import { RebuildClient } from '../support/rebuild-client.ts';
import { openSession } from '../support/session.ts';
import { until } from '../support/until.ts';
import { untilSettled } from '../support/until-settled.ts';

@Denormalizer({ types: ['noted'] })
@Injectable()
class Notes {
  async apply({ id }: Message, tx: ReadModelTransaction): Promise<void> {
    await tx.query('INSERT INTO note (id) VALUES ($1)', [id]);
  }
}
/** The same migrations, but what the code does has changed. */
@Denormalizer({ types: ['noted'] })
@Injectable()
class ChangedNotes {
  async apply({ id }: Message, tx: ReadModelTransaction): Promise<void> {
    await tx.query('INSERT INTO note (id) VALUES ($1)', [`changed ${id}`]);
  }
}
const V1 = oneTableReadModel('note (id text PRIMARY KEY)', [Notes]);

class Rating1763251300901 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE note ADD COLUMN rating int');
  }
  async down(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE note DROP COLUMN rating');
  }
}
/** The same code, and a further migration. */
const V2: ReadModel = {
  ...oneTableReadModel('note (id text PRIMARY KEY)', [Notes]),
  migrations: [...(V1.migrations as []), Rating1763251300901],
};

let database: TestDatabase;
let replicas: TestApp[];

beforeEach(async () => {
  database = await createDatabase();
  replicas = [];
});
afterEach(async () => {
  for (const replica of replicas) await replica.close();
  await database.drop();
});

async function start(readModel: ReadModel, roles = 'api,inbox,upkeep'): Promise<RebuildClient> {
  const replica = await startApp(database, { INBOX_POLL: '20ms', ROLES: roles }, [readModel]);
  replicas.push(replica);
  return new RebuildClient(replica);
}

async function post(id: string): Promise<void> {
  const body = { id, type: 'noted', payload: {} };
  expect((await replicas.at(-1)!.call('POST', '/v1/messages', { body })).status).toBe(202);
  await untilSettled(database);
}

const columns = async (schema: string) => {
  const rows = await database.query<{ name: string }>(
    'SELECT column_name AS name FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2 ORDER BY 1',
    [schema, 'note'],
  );
  return rows.map(({ name }) => name);
};
const waitsFor = (rebuilds: RebuildClient, pattern: RegExp) =>
  until(async () => pattern.test((await rebuilds.latest()).waitsFor ?? ''));

describe('migrations that differ between replicas', () => {
  it('keep a rebuild from its switch if only the living schema has them', async () => {
    const old = await start(V1);
    await post('m-1');
    await old.act('', { dryRun: true });
    await old.reached('ready');
    const rebuilds = await start(V2);
    await rebuilds.act('/switch');
    await waitsFor(
      rebuilds,
      /^tested__next lacks the migration Rating1763251300901 of tested: cancel it, and/,
    );
    expect(await columns('tested')).toEqual(['id', 'rating']);

    await replicas.shift()!.close();
    await database.query(
      `UPDATE read_model_version SET seen_at = seen_at - interval '1 minute' WHERE cardinality(migrations) = 1`,
    );
    await waitsFor(rebuilds, /^no replica with the role "inbox" has its migrations/);
    await rebuilds.act('/cancel');
    await rebuilds.act('', {});
    await rebuilds.reached('switched');
    expect(await columns('tested')).toEqual(['id', 'rating']);
  });

  it('keep it from being rolled back, and the living model stays', async () => {
    const old = await start(V1);
    await post('m-1');
    await old.act('', {});
    await old.reached('switched');
    const rebuilds = await start(V2);
    await rebuilds.act('/rollback');
    await waitsFor(
      rebuilds,
      /^tested__previous lacks the migration Rating1763251300901 of tested: cancel the rollback$/,
    );
    await rebuilds.act('/cancel');
    expect((await rebuilds.latest()).status).toBe('switched');
    expect(await columns('tested')).toEqual(['id', 'rating']);
    await post('m-2');
  });

  it('are waited for while they run', async () => {
    const rebuilds = await start(V1);
    await rebuilds.act('', { dryRun: true });
    await rebuilds.reached('ready');
    const migrating = await openSession(database);
    await migrating.query('SELECT pg_advisory_lock(5107205318271)');
    await rebuilds.act('/switch');
    await waitsFor(rebuilds, /^a replica runs migrations; it tries again$/);
    await migrating.close();
    await rebuilds.reached('switched');
  });

  it('do not matter if the living schema had them before, and the code of some is gone', async () => {
    const rebuilds = await start(V1);
    await database.query(`INSERT INTO tested.migration (timestamp, name) VALUES (1, 'Removed1')`);
    await rebuilds.act('', {});
    await rebuilds.reached('switched');
  });
});

describe('code that differs between replicas', () => {
  const CHANGED = { ...V1, module: oneTableReadModel('note (id text)', [ChangedNotes]).module };
  const ids = (schema: string) => database.query(`SELECT id FROM ${schema}.note`);

  it('is not mixed: only replicas that run the version with which a rebuild was started work on it', async () => {
    const changed = await start(CHANGED, 'api');
    const old = await start(V1);
    await post('m-1');
    await changed.act('', { dryRun: true });
    await waitsFor(
      old,
      /^no replica with the role "inbox" runs this version of its denormalizers: start one/,
    );
    await start(CHANGED, 'inbox');
    await changed.reached('ready');
    expect([await ids('tested'), await ids('tested__next')]).toEqual([
      [{ id: 'm-1' }],
      [{ id: 'changed m-1' }],
    ]);
    await replicas.pop()!.close();
    await database.query(`DELETE FROM read_model_version WHERE version = (SELECT version FROM rebuild)`);
    await old.act('/switch');
    await waitsFor(old, /runs this version/);
    await start(CHANGED, 'inbox');
    await changed.reached('switched');
  });

  it('goes on with a schema that was the living one', async () => {
    const old = await start(V1);
    await old.act('', {});
    await old.reached('switched');
    await replicas.pop()!.close();
    const changed = await start(CHANGED);
    await post('m-1');
    await changed.act('/rollback');
    await changed.reached('rolled-back');
    expect(await ids('tested')).toEqual([{ id: 'changed m-1' }]);
  });
});
