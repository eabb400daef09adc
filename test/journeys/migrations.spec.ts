import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { DataSource, Entity, type MigrationInterface, PrimaryColumn, type QueryRunner } from 'typeorm';
import { loadSettings } from '../../src/config/settings.ts';
import { dataSourceOptions, type SchemaPart } from '../../src/database/data-source-options.ts';
import { MigrationError, migrate, pendingMigrations } from '../../src/database/migrate.ts';
import { withSearchPath } from '../../src/database/model-schemas.ts';
import { prepareSchema } from '../../src/prepare-schema.ts';
import { READ_MODELS } from '../../src/read-models/read-models.module.ts';
import { createLog } from '../../src/telemetry/logger.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { SCHEMA } from '../support/schema.ts';

const SETTINGS = loadSettings({});
const ALL = SCHEMA.flatMap((part) => part.migrations).map(({ name }) => name);

class First1700000000001 implements MigrationInterface {
  async up(runner: QueryRunner) {
    await runner.query('CREATE TABLE first (id int)');
  }
  async down(runner: QueryRunner) {
    await runner.query('DROP TABLE first');
  }
}

class Second1700000000002 implements MigrationInterface {
  async up(runner: QueryRunner) {
    await runner.query('CREATE TABLE second (id int)');
    await runner.query('INSERT INTO second SELECT 1 / (SELECT count(*) FROM first)');
  }
  async down(runner: QueryRunner) {
    await runner.query('DROP TABLE second');
  }
}

class Limits1700000000003 implements MigrationInterface {
  async up(runner: QueryRunner) {
    await runner.query(`CREATE TABLE limits AS SELECT current_setting('lock_timeout') AS lock`);
  }
  async down(runner: QueryRunner) {
    await runner.query('DROP TABLE limits');
  }
}

/** Lasts until another replica waits for the lock. */
class Awaited1700000000003 implements MigrationInterface {
  transaction = false;
  async up(runner: QueryRunner) {
    const asked = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND application_name = 'sluice migrate' AND query ~ 'advisory|ROLLBACK'`;
    while ((await runner.query(asked)).length < 2);
  }
  async down() {}
}

/** As CONTRIBUTING.md requires: without a transaction, and able to start over. */
class Index1700000000004 implements MigrationInterface {
  transaction = false;
  async up(runner: QueryRunner) {
    await runner.query('DROP INDEX CONCURRENTLY IF EXISTS first_id');
    await runner.query('CREATE INDEX CONCURRENTLY first_id ON first (id)');
  }
  async down(runner: QueryRunner) {
    await runner.query('DROP INDEX CONCURRENTLY first_id');
  }
}

let database: TestDatabase;

beforeEach(async () => {
  database = await createDatabase({ empty: true });
});
afterEach(() => database.drop());

describe('migrations', () => {
  it('run once each when ten replicas start at once', async () => {
    const runs = await Promise.all(Array.from({ length: 10 }, () => migrate(database.url, SETTINGS, SCHEMA)));

    expect(runs.filter((names) => names.length > 0)).toEqual([ALL]);
    expect(await applied()).toEqual(ALL);
    expect(await pendingMigrations(database.url, SETTINGS, SCHEMA)).toStrictEqual([]);
  });

  it('wait while another replica migrates', async () => {
    const other = await holdMigrationLock();
    const running = migrate(database.url, SETTINGS, SCHEMA);
    const asked = `SELECT FROM pg_stat_activity WHERE datname = current_database()
      AND application_name = 'sluice migrate' AND query = 'ROLLBACK'`;
    while ((await database.query(asked)).length === 0);

    expect(await tables()).toEqual([]);
    await other.end();
    expect(await running).toEqual(ALL);
  });

  it('fail, and do not end the process, when the server ends the connection of a replica that waits', async () => {
    const other = await holdMigrationLock();
    const running = migrate(database.url, SETTINGS, SCHEMA);
    const failed = expect(running).rejects.toThrow();
    const end = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
      AND application_name = 'sluice migrate' AND query = 'ROLLBACK' AND state = 'idle'`;
    while ((await database.query(end)).length === 0);

    await failed;
    await other.end();
    expect(await migrate(database.url, SETTINGS, SCHEMA)).toEqual(ALL);
  });

  it.each([
    ['alone', [Index1700000000004]],
    ['while another replica waits', [Awaited1700000000003, Index1700000000004]],
  ])('build an index CONCURRENTLY, %s', async (_when, migrations) => {
    const parts = partOf(First1700000000001, ...migrations);
    const replicas = migrations.map(() => migrate(database.url, SETTINGS, parts));

    expect((await Promise.all(replicas)).flat()).toHaveLength(migrations.length + 1);
    const index = `SELECT indisvalid AS valid FROM pg_index WHERE indexrelid = 'first_id'::regclass`;
    expect(await database.query(index)).toEqual([{ valid: true }]);
  });

  it('can each be undone: up, down and up again leaves the same schema, and down leaves none', async () => {
    await migrate(database.url, SETTINGS, SCHEMA);
    const before = await catalogue();
    for (const part of SCHEMA.toReversed()) await undo(part);
    const undone = await catalogue();
    await migrate(database.url, SETTINGS, SCHEMA);

    expect(before.length).toBeGreaterThan(10);
    expect(undone.filter((line) => !/migration|PK_3043fc6b8af7c99b8b98830094f/.test(line))).toStrictEqual([]);
    expect(await catalogue()).toEqual(before);
  });

  it('that fail are reported in one line, rolled back, and leave the earlier ones; the next start continues', async () => {
    const parts = partOf(First1700000000001, Second1700000000002, Limits1700000000003);
    const fault = await migrate(database.url, SETTINGS, parts).catch((error: unknown) => error);

    expect(fault).toBeInstanceOf(MigrationError);
    expect((fault as Error).message).toMatch(
      /^migration Second1700000000002 failed and was rolled back \(division by zero\); .*fix the cause and start again$/,
    );
    expect(await tables()).toEqual(['first', 'migration']);
    expect(await applied()).toEqual(['First1700000000001']);

    await database.query('INSERT INTO first VALUES (1)');
    expect(await migrate(database.url, SETTINGS, parts)).toEqual([
      'Second1700000000002',
      'Limits1700000000003',
    ]);
  });

  it('without a transaction do not claim to have been rolled back when they fail', async () => {
    class Half1700000000005 implements MigrationInterface {
      transaction = false;
      async up(runner: QueryRunner) {
        await runner.query('CREATE TABLE half (id int)');
        await runner.query('SELECT 1 / 0');
      }
      async down() {}
    }
    await expect(migrate(database.url, SETTINGS, partOf(Half1700000000005))).rejects.toThrow(
      /^migration Half1700000000005 failed \(division by zero\) and has no transaction, so a part of it may be applied; /,
    );
    expect(await tables()).toEqual(['half', 'migration']);
  });

  it('never wait long behind a long reader', async () => {
    await migrate(database.url, SETTINGS, partOf(Limits1700000000003));
    expect(await database.query('SELECT lock FROM limits')).toEqual([{ lock: '5s' }]);
  });

  it('of a newer version do not affect an older one', async () => {
    await migrate(database.url, SETTINGS, partOf(First1700000000001, Limits1700000000003));
    const older = partOf(First1700000000001);

    expect(await pendingMigrations(database.url, SETTINGS, older)).toStrictEqual([]);
    expect(await migrate(database.url, SETTINGS, older)).toStrictEqual([]);
  });
});

describe('a read model', () => {
  const oldModel = SCHEMA.map(({ entities, migrations }) => ({ entities, migrations }));
  const APPLY = `INSERT INTO candidate AS known (id, status, applied_at, changed_at, version) VALUES ('c-1', 'applied', now(), now(), 1)
    ON CONFLICT (id) DO UPDATE SET version = known.version + 1`;

  it('whose tables an earlier version created in public is moved, and that version still reads and writes it', async () => {
    await migrate(database.url, SETTINGS, oldModel);
    const session = await client();
    await session.query(APPLY);

    expect(await migrate(database.url, SETTINGS, SCHEMA)).toEqual([]);
    await session.query(APPLY);
    expect((await session.query('SELECT id, version FROM candidate')).rows).toEqual([
      { id: 'c-1', version: 2 },
    ]);
    await session.end();
    expect(await database.query('SELECT version FROM recruitment.candidate')).toEqual([{ version: 2 }]);
    expect(await pendingMigrations(database.url, SETTINGS, oldModel)).toEqual([]);
    expect(await pendingMigrations(database.url, SETTINGS, SCHEMA)).toEqual([]);
    expect(await migrate(database.url, SETTINGS, SCHEMA)).toEqual([]);
  });

  const one = (name: string, ...migrations: SchemaPart['migrations']) => ({ name, entities: [], migrations });
  class Reference1700000000005 implements MigrationInterface {
    async up(runner: QueryRunner) {
      await runner.query('CREATE TABLE mine (id int REFERENCES a.first_pk (id))');
    }
    async down() {}
  }
  class Target1700000000004 implements MigrationInterface {
    async up(runner: QueryRunner) {
      await runner.query('CREATE TABLE first_pk (id int PRIMARY KEY)');
    }
    async down() {}
  }

  it.each([
    ['with an unusable name', [one('Public')], /the read model name "Public" cannot be used/],
    ['with the name of another', [one('a'), one('a')], /two read models are named "a"/],
    [
      'with a table of another',
      [one('a', First1700000000001), one('b', First1700000000001)],
      /the table "first" exists in a and b: a read model needs tables of its own/,
    ],
    [
      'with a foreign key into another',
      [one('a', Target1700000000004), one('b', Reference1700000000005)],
      /foreign key mine_id_fkey leads from b.mine to a.first_pk/,
    ],
  ])('%s is refused at start', async (_, parts, message) => {
    await expect(migrate(database.url, SETTINGS, parts)).rejects.toThrow(message);
  });

  it('whose entity names a schema is refused at start', async () => {
    class Item {}
    Entity({ name: 'item', schema: 'elsewhere' })(Item);
    PrimaryColumn('text')(Item.prototype, 'id');
    const part = { name: 'a', entities: [Item], migrations: [First1700000000001] };
    await expect(migrate(database.url, SETTINGS, [part])).rejects.toThrow(
      /entity Item names the schema "elsewhere"/,
    );
  });
});

describe('MIGRATIONS=off', () => {
  const off = loadSettings({ MIGRATIONS: 'off' });
  const log = createLog(off, { write: () => undefined });

  it('refuses an outdated schema, names what is missing and what to do, and changes nothing', async () => {
    const refused = prepareSchema(database.url, off, log, READ_MODELS);
    await expect(refused).rejects.toThrow(
      new MigrationError(`these migrations have not run: ${ALL.join(', ')}; run "npm run migrate" first`),
    );
    expect(await tables()).toEqual([]);
  });

  it('accepts a schema that is up to date', async () => {
    await prepareSchema(database.url, SETTINGS, log, READ_MODELS);
    await prepareSchema(database.url, off, log, READ_MODELS);
  });
});

/** In its own schema, as they ran. */
async function undo(part: SchemaPart): Promise<void> {
  const url = withSearchPath(database.url, part.name ?? 'public');
  const { entities, migrations } = part;
  const options = dataSourceOptions(url, SETTINGS, [{ entities, migrations }]);
  const dataSource = await new DataSource(options).initialize();
  for (const _ of part.migrations) await dataSource.undoLastMigration();
  await dataSource.destroy();
}

function partOf(...migrations: SchemaPart['migrations']): SchemaPart[] {
  return [{ entities: [], migrations }];
}

async function applied(): Promise<string[]> {
  const [found] = await database.query(`SELECT to_regclass('recruitment.migration') IS NOT NULL AS model`);
  const records = ['public', ...(found!.model ? ['recruitment'] : [])];
  const names = records.map((schema) =>
    database.query<{ name: string }>(`SELECT name FROM ${schema}.migration ORDER BY id`),
  );
  return (await Promise.all(names)).flat().map(({ name }) => name);
}

async function tables(): Promise<string[]> {
  const rows = await database.query<{ name: string }>(
    `SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY 1`,
  );
  return rows.map(({ name }) => name);
}

/** Everything that a migration can create, one line each, without TypeORM's own table. */
async function catalogue(): Promise<string[]> {
  const rows = await database.query<{ line: string }>(`
    WITH ours AS (SELECT oid FROM pg_namespace WHERE nspname IN ('public', 'recruitment'))
    SELECT format('relation %s %s %s', relkind, relname, reloptions) AS line
      FROM pg_class WHERE relnamespace IN (TABLE ours)
    UNION ALL
    SELECT format('column %s.%s %s %s null=%s default=%s', attrelid::regclass, attname, format_type(atttypid, atttypmod),
                  attidentity, NOT attnotnull, pg_get_expr(adbin, adrelid))
      FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
     WHERE relnamespace IN (TABLE ours) AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT format('constraint %s.%s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
      FROM pg_constraint WHERE connamespace IN (TABLE ours)
    UNION ALL
    SELECT format('index %s', indexdef) FROM pg_indexes WHERE schemaname IN ('public', 'recruitment')
    UNION ALL
    SELECT format('trigger %s', pg_get_triggerdef(pg_trigger.oid))
      FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid WHERE relnamespace IN (TABLE ours) AND NOT tgisinternal
    UNION ALL
    SELECT format('function %s', pg_get_functiondef(oid)) FROM pg_proc WHERE pronamespace IN (TABLE ours) AND prokind <> 'a'
    UNION ALL
    SELECT format('type %s %s', typtype, typname) FROM pg_type WHERE typnamespace IN (TABLE ours) AND typtype IN ('d', 'e', 'r')
    UNION ALL
    SELECT format('extension %s', extname) FROM pg_extension WHERE extname <> 'plpgsql'
    ORDER BY 1`);
  return rows.map(({ line }) => line);
}

async function client(): Promise<pg.Client> {
  const session = new pg.Client({ connectionString: database.url });
  await session.connect();
  return session;
}

/** As another replica that migrates; the lock is held until the session ends. */
async function holdMigrationLock(): Promise<pg.Client> {
  const other = new pg.Client({ connectionString: database.url });
  await other.connect();
  await other.query('BEGIN');
  await other.query('SELECT pg_advisory_xact_lock($1)', [5_107_205_318_271]);
  return other;
}
