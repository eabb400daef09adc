import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Pool } from 'pg';
import { Column, DataSource, Entity, PrimaryColumn } from 'typeorm';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { startSilentServer } from '../../test/support/silent-server.ts';
import { startTcpProxy, type TcpProxy } from '../../test/support/tcp-proxy.ts';
import { loadSettings, type Settings } from '../config/settings.ts';
import { dataSourceOptions } from './data-source-options.ts';
import { Database } from './database.ts';
import { codeOf, isConflictOfTransactions, isDatabaseAway } from './errors.ts';
import { prepared } from './prepared.ts';
import type { Transaction } from './transaction.ts';

@Entity()
class Note {
  @PrimaryColumn('int')
  id: number;

  @Column('text')
  words: string;
}

const DEFAULTS = loadSettings({});

let server: TestDatabase;
let proxy: TcpProxy;
let dataSource: DataSource;
let database: Database;
let idleErrors: Error[];

beforeAll(async () => {
  server = await createDatabase({ empty: true });
  await server.query('CREATE TABLE note (id int PRIMARY KEY, words text NOT NULL)');
  proxy = await startTcpProxy(server.url);
  dataSource = new DataSource(
    dataSourceOptions(server.url, DEFAULTS, [{ entities: [Note], migrations: [] }]),
  );
  await dataSource.initialize();
});
beforeEach(async () => {
  await server.query('TRUNCATE note');
  idleErrors = [];
  database = open();
});
afterEach(() => database.close());
afterAll(async () => {
  await dataSource.destroy();
  await proxy.close();
  await server.drop();
});

describe('a transaction', () => {
  it('sends statements that are not awaited before the first one completes, BEGIN included', async () => {
    const before = proxy.statements.length;

    const results = await database.transaction(async (tx) => {
      proxy.holdResponses();
      const all = Array.from({ length: 50 }, (_, n) =>
        tx.query<{ n: number }>(`SELECT $1::int AS n -- ${n}`, [n]),
      );
      await proxy.sent(before + 51);
      proxy.releaseResponses();
      return Promise.all(all);
    });

    expect(proxy.statements[before]).toBe('BEGIN');
    expect(results.flat().map(({ n }) => n)).toEqual(Array.from({ length: 50 }, (_, n) => n));
  });

  it('costs two round trips, however many statements it has; awaited one by one each costs one', async () => {
    const together = await roundTrips(async (tx) => {
      proxy.holdResponses();
      const before = proxy.statements.length;
      const all = Array.from({ length: 50 }, (_, n) => tx.query(`SELECT $1::int -- ${n}`, [1]));
      await proxy.sent(before + 50);
      proxy.releaseResponses();
      await Promise.all(all);
    });
    const singly = await roundTrips(async (tx) => {
      for (let n = 0; n < 50; n++) await tx.query('SELECT $1::int', [1]);
    });

    expect(together).toBe(2);
    expect(singly).toBeGreaterThanOrEqual(51);
  });

  it('runs statements in the order in which they were issued', async () => {
    await server.query('CREATE TABLE arrival (position int GENERATED ALWAYS AS IDENTITY, n int)');
    await database.transaction(async (tx) => {
      for (let n = 0; n < 200; n++) void tx.execute('INSERT INTO arrival (n) VALUES ($1)', [n]);
    });

    const rows = await server.query<{ n: number }>('SELECT n FROM arrival ORDER BY position');
    expect(rows.map(({ n }) => n)).toEqual(Array.from({ length: 200 }, (_, n) => n));
  });

  it('commits statements that were issued and not awaited', async () => {
    await database.transaction(async (tx) => void note(tx, 1));
    expect(await notes()).toEqual([1]);
  });

  it('commits nothing when a statement that was not awaited could not even be sent', async () => {
    const failing = database.transaction(async (tx) => {
      void tx.query('SELECT $1::json', [{ big: 10n }]);
      await tx.commitWith(() => [note(tx, 1)]);
    });

    await expect(failing).rejects.toThrow('BigInt');
    expect(await notes()).toEqual([]);
  });

  it('succeeds once COMMIT succeeded, even if a statement before it failed and was undone', async () => {
    await database.transaction(async (tx) => {
      await note(tx, 1);
      await tx.query('SAVEPOINT before');
      await note(tx, 1).catch(() => tx.query('ROLLBACK TO SAVEPOINT before'));
      await tx.commitWith(() => [note(tx, 2)]);
    });

    expect(await notes()).toEqual([1, 2]);
  });

  it('commits nothing when a statement that was not awaited fails, and the process survives', async () => {
    const failing = database.transaction(async (tx) => {
      void note(tx, 1);
      void note(tx, 1);
      void note(tx, 2);
    });

    await expect(failing).rejects.toMatchObject({ code: '23505' });
    expect(await notes()).toEqual([]);
    await anEventLoopTurn();
  });

  it('commits nothing when the work throws', async () => {
    const failing = database.transaction(async (tx) => {
      await note(tx, 1);
      throw new Error('no');
    });

    await expect(failing).rejects.toThrow('no');
    expect(await notes()).toEqual([]);
  });

  it('rejects when the work swallowed a failure that rolled everything back', async () => {
    const swallowing = database.transaction(async (tx) => {
      await note(tx, 1);
      await tx.manager.query('SELECT 1/0').catch(() => undefined);
    });

    await expect(swallowing).rejects.toThrow('nothing was committed');
    expect(await notes()).toEqual([]);
  });

  it('returns its healthy connection to the pool after a failure', async () => {
    const pid = await database.transaction(backendOf);
    await expect(database.transaction((tx) => tx.query('SELECT 1/0'))).rejects.toMatchObject({
      code: '22012',
    });
    expect(await database.transaction(backendOf)).toBe(pid);
  });

  it('sends nothing after it has ended: not for a branch that is still running, nor for its manager', async () => {
    let itIsOver!: () => void;
    const over = new Promise<void>((resolve) => {
      itIsOver = resolve;
    });
    const late: Promise<unknown>[] = [];
    const branch = async (write: () => Promise<unknown>) => {
      await over;
      await write();
    };
    const failing = database.transaction(async (tx) => {
      late.push(branch(() => note(tx, 1)));
      late.push(branch(() => tx.manager.insert(Note, { id: 2, words: 'late' })));
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
    itIsOver();

    const outcomes = await Promise.allSettled(late);
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(await notes()).toEqual([]);
  });

  it('runs entities of TypeORM on its own connection, as part of the transaction', async () => {
    await database.transaction(async (tx) => {
      await tx.manager.insert(Note, { id: 1, words: 'by entity' });
      expect(await tx.query('SELECT words FROM note')).toEqual([{ words: 'by entity' }]);
      expect(await tx.manager.find(Note)).toEqual([{ id: 1, words: 'by entity' }]);
      expect(await notes()).toEqual([]);
    });
    expect(await notes()).toEqual([1]);

    const failing = database.transaction(async (tx) => {
      await tx.manager.save(Object.assign(new Note(), { id: 2, words: 'undone' }));
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
    expect(await notes()).toEqual([1]);
  });

  it('turns a nested transaction into a savepoint, never a COMMIT', async () => {
    await database.transaction(async (tx) => {
      await tx.manager.transaction((inner) => inner.insert(Note, { id: 1, words: 'inner' }));
      expect(await notes()).toEqual([]);
      const failing = tx.manager.transaction(async (inner) => {
        await inner.insert(Note, { id: 2, words: 'undone' });
        await inner.insert(Note, { id: 2, words: 'twice' });
      });
      await expect(failing).rejects.toThrow();
      await note(tx, 3);
    });

    expect(await notes()).toEqual([1, 3]);
  });
});

describe('a connection that broke', () => {
  it('between two statements fails the transaction and leaves the pool, and the process survives', async () => {
    const failing = database.transaction(async (tx) => {
      const pid = await backendOf(tx);
      await server.query('SELECT pg_terminate_backend($1)', [pid]);
      await gone(pid);
      await tx.query('SELECT 1');
    });

    expect(await isAwayFor(failing)).toBe(true);
    expect(database.pool.totalCount).toBe(0);
    expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('during a statement fails the transaction and leaves the pool', async () => {
    const failing = database.transaction(async (tx) => {
      const pid = await backendOf(tx);
      const asleep = tx.query('SELECT pg_sleep(60)');
      await until(() =>
        server.query(`SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'`, [pid]),
      );
      await server.query('SELECT pg_terminate_backend($1)', [pid]);
      await asleep;
    });

    expect(await isAwayFor(failing)).toBe(true);
    expect(database.pool.totalCount).toBe(0);
  });

  it('and reports the reason only after it was discarded does no harm, in the engine and in TypeORM', async () => {
    const { master } = dataSource.driver as unknown as { master: Pool };
    for (const pool of [database.pool, master]) {
      const client = await pool.connect();
      client.release(true);
      expect(client.emit('error', new Error('unexpected postmaster exit'))).toBe(true);
    }
  });

  it('while it was idle is reported and replaced', async () => {
    const pid = await database.transaction(backendOf);
    await server.query('SELECT pg_terminate_backend($1)', [pid]);
    await gone(pid);

    expect(await database.transaction(backendOf)).not.toBe(pid);
    expect(idleErrors).toEqual([expect.objectContaining({ code: '57P01' })]);
  });

  it('silently, as behind a dead switch, fails its statement within the timeout and leaves the pool', async () => {
    await database.close();
    database = open({ databaseStatementTimeout: 50 });
    const failing = database.transaction(async (tx) => {
      await backendOf(tx);
      await Promise.all([tx.query('SELECT 1'), Promise.resolve(proxy.blackHole())]);
      await tx.query('SELECT 2');
    });

    expect(await isAwayFor(failing)).toBe(true);
    expect(database.pool.totalCount).toBe(0);
    expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it.each([
    ['a transaction', () => database.transaction((tx) => tx.execute(`INSERT INTO note VALUES (1, 'a')`))],
    ['one statement', () => database.execute(`INSERT INTO note VALUES (1, 'a')`)],
    ['statements together', () => database.inOneRoundTrip([[`INSERT INTO note VALUES (1, 'a')`]])],
  ])('that leads to a server that is no primary any more is not used again: %s', async (_, write) => {
    const clients = await Promise.all([database.pool.connect(), database.pool.connect()]);
    for (const client of clients) {
      await client.query('SET default_transaction_read_only = on');
      client.release();
    }
    expect(await isAwayFor(write())).toBe(true);
    await write();
    expect(await server.query('SELECT id FROM note')).toEqual([{ id: 1 }]);
  });

  it('to a server that accepts and never replies is given up after the connect timeout', async () => {
    const silent = await startSilentServer();
    const unreachable = new Database(
      silent.url,
      { ...DEFAULTS, databaseConnectTimeout: 50 },
      undefined,
      ignore,
    );
    expect(await isAwayFor(unreachable.query('SELECT 1'))).toBe(true);
    await unreachable.close();
    await silent.close();
  });
});

describe('a pool that was closed', () => {
  it('has no connection left, in the engine and in TypeORM', async () => {
    const readers = await new DataSource(dataSourceOptions(server.url, DEFAULTS, [])).initialize();
    const { master } = readers.driver as unknown as { master: Pool };
    let ended = 0;
    for (const pool of [database.pool, master]) {
      const clients = await Promise.all([pool.connect(), pool.connect(), pool.connect()]);
      for (const client of clients) client.once('end', () => (ended += 1)).release();
    }

    await database.close();
    expect(ended).toBe(3);
    await readers.destroy();
    expect(ended).toBe(6);
    database = open();
  });

  it('did not wait for a connection that was discarded and does not reply', async () => {
    const client = await database.pool.connect();
    let ended = false;
    client.once('end', () => (ended = true));
    proxy.blackHole();
    client.query('SELECT 1').catch(ignore);
    client.release(true);

    await database.close();
    expect(ended).toBe(false);
    proxy.closeBlackHoles();
    database = open();
  });
});

describe('every connection', () => {
  const SHOW = `
    SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock,
           current_setting('idle_in_transaction_session_timeout') AS idle, current_setting('application_name') AS name`;

  it('has its timeouts and its name, in the engine and in TypeORM', async () => {
    const limits = { statement: '30s', lock: '10s', idle: '5s' };
    expect(await database.query(SHOW)).toEqual([{ ...limits, name: 'sluice engine' }]);
    expect(await dataSource.query(SHOW)).toEqual([{ ...limits, name: 'sluice read' }]);
  });

  it('has them per transaction behind a pooler, and leaves none on the shared connection', async () => {
    await database.close();
    database = open({ databasePooler: 'transaction', databasePoolSize: 1 });
    const limits = { statement: '30s', lock: '10s', idle: '5s', name: 'sluice engine' };

    expect(await database.transaction((tx) => tx.query(SHOW))).toEqual([limits]);
    expect(await database.query(SHOW)).toEqual([{ ...limits, statement: '0', lock: '0', idle: '0' }]);
  });

  it('cancels a statement that takes too long, and stays usable', async () => {
    await database.close();
    database = open({ databaseStatementTimeout: 50 });
    const pid = await database.transaction(backendOf);
    const slow = database.transaction((tx) => tx.query('SELECT pg_sleep(60)'));

    await expect(slow).rejects.toMatchObject({ code: '57014' });
    expect(await database.transaction(backendOf)).toBe(pid);
  });

  it('reads bigint as a number', async () => {
    expect(await database.query('SELECT 9007199254740991::bigint AS n')).toEqual([{ n: 9007199254740991 }]);
  });
});

describe('a statement', () => {
  const FIND = 'SELECT id FROM probe WHERE id = $1';
  const SCANS = `SELECT pg_stat_get_xact_numscans('probe'::regclass) AS scans`;

  beforeEach(async () => {
    await server.query('CREATE TABLE probe (id int PRIMARY KEY) WITH (autovacuum_enabled = off)');
    await server.query('VACUUM ANALYZE probe');
  });
  afterEach(() => server.query('DROP TABLE probe'));

  it('is planned for the table as it is now; a prepared one keeps the plan of the empty table', async () => {
    const statements = {
      ours: (tx: Transaction) => tx.query(FIND, [20_000]),
      preparedOn: (tx: Transaction) => tx.query(prepared(`${FIND} -- kept`), [20_000]),
    };
    const wholeTableReads = (work: (tx: Transaction) => Promise<unknown>) =>
      database.transaction(async (tx) => {
        const [before] = await tx.query<{ scans: number }>(SCANS);
        await work(tx);
        const [after] = await tx.query<{ scans: number }>(SCANS);
        return after!.scans - before!.scans;
      });
    for (let n = 0; n < 10; n++) {
      for (const run of Object.values(statements)) expect(await wholeTableReads(run)).toBe(1);
    }
    await server.query('INSERT INTO probe SELECT generate_series(1, 50000)');

    expect(await wholeTableReads(statements.preparedOn)).toBe(1);
    expect(await wholeTableReads(statements.ours)).toBe(0);
  });

  const preparedOn = (tx: Transaction) =>
    tx.query<{ statement: string }>('SELECT statement FROM pg_prepared_statements');

  it('that is used again is parsed once for the rest of its transaction, and deallocated with it', async () => {
    const statements = await database.transaction(async (tx) => {
      await tx.query(FIND, [1]);
      expect(await preparedOn(tx)).toEqual([]);
      await Promise.all([tx.query(FIND, [2]), tx.query(FIND, [3]), tx.manager.query(FIND, [4])]);
      return preparedOn(tx);
    });
    expect(statements).toEqual([{ statement: FIND }]);
    expect(await database.transaction(preparedOn)).toEqual([]);

    const other = `${FIND} + 0`;
    const both = await database.transaction(async (tx) => {
      for (const sql of [FIND, other, FIND, other, other, FIND]) void tx.query(sql, [1]);
      return preparedOn(tx);
    });
    expect(both.map(({ statement }) => statement).toSorted()).toEqual([FIND, other]);

    await database.transaction(async (tx) => {
      const results = await Promise.all([1, 2, 3].map((id) => tx.query(FIND, [id])));
      expect(results).toHaveLength(3);
    });
  });

  it('is deallocated with a transaction that failed, and can be used again', async () => {
    const failing = database.transaction(async (tx) => {
      await Promise.all([tx.query(FIND, [1]), tx.query(FIND, [2]), tx.query('SELECT 1 / $1::int', [0])]);
    });
    await expect(failing).rejects.toThrow('division by zero');
    const statements = await database.transaction(async (tx) => {
      await Promise.all([tx.query(FIND, [1]), tx.query(FIND, [2]), tx.query(FIND, [3])]);
      return preparedOn(tx);
    });
    expect(statements).toEqual([{ statement: FIND }]);
    expect(database.pool.totalCount).toBe(1);
  });

  it('is deallocated with a transaction that failed before another statement was even parsed', async () => {
    const DIVIDE = 'SELECT 1 / $1::int';
    const failing = database.transaction(async (tx) => {
      const issued = [FIND, DIVIDE].map((sql) => tx.query(sql, [1]));
      await Promise.all([...issued, tx.query(DIVIDE, [0]), tx.query(FIND, [2])]);
    });
    await expect(failing).rejects.toThrow('division by zero');
    expect(await database.transaction(preparedOn)).toEqual([]);
    expect(database.pool.totalCount).toBe(1);
  });

  it('is deallocated, too, when all are sent in one round trip', async () => {
    await database.inOneRoundTrip([
      [FIND, [1]],
      [FIND, [2]],
    ]);
    expect(await database.transaction(preparedOn)).toEqual([]);
  });

  const KEPT = prepared(`${FIND} AND $1 > 0`);

  it('marked as prepared stays prepared, whether or not its transaction failed', async () => {
    await database.transaction((tx) => tx.query(KEPT, [1]));
    const failing = database.transaction((tx) =>
      Promise.all([tx.query(FIND, [1]), tx.query(FIND, [2]), tx.query('SELECT 1 / $1::int', [0])]),
    );
    await expect(failing).rejects.toThrow('division by zero');
    expect(await database.transaction(preparedOn)).toEqual([{ statement: KEPT }]);
    await database.query(KEPT, [1]);
    await database.inOneRoundTrip([[KEPT, [1]]]);
    expect(await database.transaction(preparedOn)).toEqual([{ statement: KEPT }]);
  });

  it('marked as prepared, whose table changed its type, is prepared again on another connection', async () => {
    await server.query('INSERT INTO probe VALUES (1)');
    const ids = () => database.transaction((tx) => tx.query(KEPT, [1]));
    expect(await ids()).toEqual([{ id: 1 }]);
    await server.query('ALTER TABLE probe ALTER id TYPE bigint');
    await expect(ids()).rejects.toThrow('cached plan must not change result type');
    expect(await ids()).toEqual([{ id: 1 }]);
  });

  it('of the engine with NaN as a parameter is rejected by name, and nothing is sent', async () => {
    for (const nonsense of [Number.NaN, Number.POSITIVE_INFINITY, [1, Number.NaN]]) {
      const message = /parameter \$1 of "SELECT id FROM probe WHERE .*" is not a finite number/;
      await expect(database.transaction((tx) => tx.query(KEPT, [nonsense]))).rejects.toThrow(message);
      await expect(database.inOneRoundTrip([[KEPT, [nonsense]]])).rejects.toThrow(message);
      await expect(database.query(KEPT, [nonsense])).rejects.toThrow(message);
    }
    expect(await database.transaction((tx) => tx.query(KEPT, [1]))).toEqual(await server.query(FIND, [1]));
  });

  it('has no name behind a pooler', async () => {
    const pooled = open({ databasePooler: 'transaction' });
    const statements = await pooled.transaction(async (tx) => {
      await Promise.all([tx.query(FIND, [1]), tx.query(FIND, [2]), tx.query(KEPT, [1])]);
      return preparedOn(tx);
    });
    expect(statements).toEqual([]);
    await pooled.close();
  });
});

describe('errors of the database', () => {
  it.each([
    ['a port on which no process listens', () => openAt('postgres://x:y@127.0.0.1:1/z')],
    ['a host that does not exist', () => openAt('postgres://x:y@nowhere.invalid/z')],
    ['a name with several addresses that all refuse', () => openAt('postgres://x:y@localhost:1/z')],
  ])('are recognised as an unavailable database: %s', async (_what, opened) => {
    const away = opened();
    expect(await isAwayFor(away.query('SELECT 1'))).toBe(true);
    expect(await isAwayFor(away.transaction((tx) => tx.query('SELECT 1')))).toBe(true);
    await away.close();
  });

  it('are recognised when every connection is in use for too long', async () => {
    await database.close();
    database = open({ databasePoolSize: 1, databaseConnectTimeout: 1_000 });
    await database.transaction(async () => {
      expect(await isAwayFor(database.query('SELECT 1'))).toBe(true);
    });
  });

  it('are recognised after the pool was closed', async () => {
    const closed = open();
    await closed.close();
    expect(await isAwayFor(closed.query('SELECT 1'))).toBe(true);
  });

  it.each(['57P01', '57P02', '57P03', '53300', '08006', '08P01', '25006', '25P03', 'ECONNRESET', 'EPIPE'])(
    'are recognised by the code %s, also inside an error of TypeORM, a cause or an aggregate',
    (code) => {
      const error = Object.assign(new Error('x'), { code });
      expect(isDatabaseAway(error)).toBe(true);
      expect(isDatabaseAway(Object.assign(new Error('x'), { driverError: error }))).toBe(true);
      expect(isDatabaseAway(new Error('x', { cause: error }))).toBe(true);
      expect(isDatabaseAway(new AggregateError([error]))).toBe(true);
    },
  );

  it('are not mixed up with errors of a statement', async () => {
    const error = await database.query('SELECT 1/0').catch((error: unknown) => error);
    expect(isDatabaseAway(error)).toBe(false);
    for (const nothing of [undefined, null, 'ECONNRESET', new Error('x')])
      expect(isDatabaseAway(nothing)).toBe(false);
  });

  it('include a conflict with another transaction as a kind of its own', async () => {
    await note(database, 1);
    const error = await database.transaction(async (tx) => {
      await tx.query('SELECT FROM note FOR UPDATE');
      return dataSource.query('SELECT FROM note FOR UPDATE NOWAIT').catch((error: unknown) => error);
    });

    expect(isConflictOfTransactions(error)).toBe(true);
    expect(isDatabaseAway(error)).toBe(false);
    expect(codeOf(error)).toBe('55P03');
    expect(isConflictOfTransactions(Object.assign(new Error('x'), { code: '40001' }))).toBe(true);
    expect(isConflictOfTransactions(Object.assign(new Error('x'), { code: '23505' }))).toBe(false);
  });
});

/** Through the proxy, otherwise as in the service: a pool of its own and the metadata of TypeORM. */
function open(changed: Partial<Settings> = {}): Database {
  return new Database(proxy.url, { ...DEFAULTS, ...changed }, dataSource, (error) => idleErrors.push(error));
}

function openAt(url: string): Database {
  return new Database(url, DEFAULTS, undefined, ignore);
}

function note(on: Pick<Transaction, 'execute'>, id: number): Promise<number> {
  return on.execute('INSERT INTO note VALUES ($1, $2)', [id, 'words']);
}

/** What other transactions see. */
async function notes(): Promise<number[]> {
  return (await server.query<{ id: number }>('SELECT id FROM note ORDER BY id')).map(({ id }) => id);
}

async function roundTrips(work: (tx: Transaction) => Promise<void>): Promise<number> {
  await database.query('SELECT 1'); // connected
  const before = proxy.roundTrips;
  await database.transaction(work);
  return proxy.roundTrips - before;
}

async function backendOf(tx: Transaction): Promise<number> {
  const [row] = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  return row!.pid;
}

async function gone(pid: number): Promise<void> {
  await until(() =>
    server.query('SELECT WHERE NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)', [pid]),
  );
  await anEventLoopTurn();
}

/** Repeats the query until it returns a row. */
async function until(ask: () => Promise<unknown[]>): Promise<void> {
  while ((await ask()).length === 0);
}

/** An unhandled rejection or error event would have failed the test by then. */
function anEventLoopTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}

async function isAwayFor(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => false,
    (error: unknown) => isDatabaseAway(error),
  );
}

function ignore(): void {}
