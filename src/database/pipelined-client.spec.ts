import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { startTcpProxy, type TcpProxy } from '../../test/support/tcp-proxy.ts';
import { loadSettings } from '../config/settings.ts';
import { Database } from './database.ts';
import { prepared } from './prepared.ts';
import type { Transaction } from './transaction.ts';

let server: TestDatabase;
let proxy: TcpProxy;
let database: Database;

beforeAll(async () => {
  server = await createDatabase({ empty: true });
  proxy = await startTcpProxy(server.url);
});
beforeEach(() => {
  database = new Database(proxy.url, loadSettings({ DATABASE_POOL_SIZE: '4' }), undefined, () => undefined);
});
afterEach(() => database.close());
afterAll(async () => {
  await proxy.close();
  await server.drop();
});

const number = (tx: Transaction, n: unknown) => tx.query<{ n: number }>('SELECT $1::int AS n', [n]);
/** Each statement has a different text: the second use of a text gives it a name, which would change what is tested. */
const another = (tx: Transaction, n: number) => tx.query(`SELECT $1::int -- ${n}`, [n]);
const divide = (tx: Transaction, by: number) => tx.query<{ n: number }>('SELECT 10 / $1::int AS n', [by]);
/** A value that cannot be serialised. */
const circular: { self?: unknown } = {};
circular.self = circular;
const codes = (settled: PromiseSettledResult<unknown>[]) =>
  settled.map((one) => (one.status === 'fulfilled' ? 'fine' : (one.reason as { code?: string }).code));

/** All tests use one connection: if replies were assigned to the wrong statements, the next result would show it. */
async function isInStep(): Promise<void> {
  const results = await database.transaction((tx) =>
    Promise.all([1, 2, 3].map(async (n) => (await number(tx, n))[0]!.n)),
  );
  expect(results).toEqual([1, 2, 3]);
  expect(database.pool.totalCount).toBe(1);
}

describe('statements issued in one turn of the event loop', () => {
  it('share a Sync, of which there is one for every 128', async () => {
    await isInStep();
    const before = proxy.syncs;
    await database.transaction((tx) => Promise.all(Array.from({ length: 300 }, (_, n) => number(tx, n))));
    // BEGIN and 127, 128, the rest; COMMIT.
    expect(proxy.syncs - before).toBe(4);
  });

  it('each return their own rows', async () => {
    const results = await database.transaction((tx) =>
      Promise.all(Array.from({ length: 300 }, (_, n) => number(tx, n))),
    );
    expect(results.map(([row]) => row!.n)).toEqual(Array.from({ length: 300 }, (_, n) => n));
  });

  it('of which one fails: those before it succeed, those after it do not run', async () => {
    let settled: PromiseSettledResult<unknown>[] = [];
    const failing = database.transaction(async (tx) => {
      settled = await Promise.allSettled([
        number(tx, 1),
        divide(tx, 0),
        another(tx, 2),
        tx.query('SELECT 3'),
        another(tx, 4),
      ]);
    });
    await expect(failing).rejects.toMatchObject({ code: '22012' });
    expect(codes(settled)).toEqual(['fine', '22012', '25P02', '25P02', '25P02']);
    await isInStep();
  });

  it('of which one fails: those of the next Sync do not run either', async () => {
    let settled: PromiseSettledResult<unknown>[] = [];
    const failing = database.transaction(async (tx) => {
      const all = [divide(tx, 0), ...Array.from({ length: 300 }, (_, n) => another(tx, n))];
      settled = await Promise.allSettled(all);
    });
    await expect(failing).rejects.toMatchObject({ code: '22012' });
    expect(new Set(codes(settled).slice(1))).toEqual(new Set(['25P02']));
    await isInStep();
  });

  it('of which one cannot be serialised: it fails alone', async () => {
    let settled: PromiseSettledResult<unknown>[] = [];
    const failing = database.transaction(async (tx) => {
      settled = await Promise.allSettled([number(tx, 1), number(tx, circular), number(tx, 2)]);
    });
    await expect(failing).rejects.toThrow('circular');
    expect(codes(settled)).toEqual(['fine', undefined, 'fine']);
    await isInStep();
  });

  it('of which one cannot be serialised after another one failed', async () => {
    let settled: PromiseSettledResult<unknown>[] = [];
    const failing = database.transaction(async (tx) => {
      const failed = divide(tx, 0);
      const between = another(tx, 1);
      const unbound = tx.query('SELECT $1::json', [circular]);
      settled = await Promise.allSettled([failed, between, unbound, another(tx, 2)]);
    });
    await expect(failing).rejects.toThrow('circular');
    expect(codes(settled)).toEqual(['22012', '25P02', undefined, '25P02']);
    await isInStep();
  });

  it('of which one cannot be serialised: its text can be used again', async () => {
    let after: unknown;
    const failing = database.transaction(async (tx) => {
      await Promise.allSettled([number(tx, 1), number(tx, circular)]);
      after = await number(tx, 2);
    });
    await expect(failing).rejects.toThrow('circular');
    expect(after).toEqual([{ n: 2 }]);
  });

  it('of which one fails: it rejects before the statements that were skipped, and is their cause', async () => {
    const deep = async (tx: Transaction) => {
      const later = async () => divide(tx, 0);
      await later();
    };
    let heard: unknown;
    let skipped: unknown;
    await database
      .transaction(async (tx) => {
        const [failed, behind] = [deep(tx), another(tx, 1)];
        heard = await Promise.all([behind, failed]).catch((error) => error);
        skipped = await behind.catch((error) => error);
      })
      .catch(() => undefined);
    expect(heard).toMatchObject({ code: '22012' });
    expect(skipped).toMatchObject({ code: '25P02', cause: { code: '22012' } });
    await isInStep();
  });

  it('of which one is empty', async () => {
    const results = await database
      .transaction((tx) =>
        Promise.all([number(tx, 1), tx.query('', [1]), tx.query('-- nothing'), number(tx, 2)]).catch(
          (error) => error.message,
        ),
      )
      .catch((error) => error.message);
    expect(results).toContain('bind message supplies 1 parameters');
    const fine = await database.transaction((tx) => Promise.all([tx.query('-- nothing'), number(tx, 2)]));
    expect(fine[1]).toEqual([{ n: 2 }]);
    await isInStep();
  });
});

it('serialises values as node-postgres does, also those with a toPostgres method', async () => {
  const own = { toPostgres: () => '7' };
  const values = [own, own, new Date(0), { a: 1 }, ['x', null], Buffer.from('b'), null, true];
  const sql = `SELECT $1::int AS a, $2::int AS b, $3::timestamptz AS at, $4::json AS json, $5::text[] AS list, $6::bytea AS bytes,
    $7::text AS none, $8::boolean AS yes`;
  const [row] = await database.transaction((tx) => tx.query(sql, values));
  expect(row).toEqual({
    a: 7,
    b: 7,
    at: new Date(0),
    json: { a: 1 },
    list: ['x', null],
    bytes: Buffer.from('b'),
    none: null,
    yes: true,
  });
});

it('parses a prepared statement on its next use if a failure kept it from being parsed', async () => {
  const KEPT = prepared('SELECT $1::int + 1 AS n');
  const failing = database.transaction((tx) => Promise.all([divide(tx, 0), tx.query(KEPT, [1])]));
  await expect(failing).rejects.toMatchObject({ code: '22012' });
  expect(await database.transaction((tx) => tx.query(KEPT, [1]))).toEqual([{ n: 2 }]);
  await isInStep();
});

it('does not use a connection again that has lost its prepared statements, whichever statement fails', async () => {
  const KEPT = prepared('SELECT 1 AS kept');
  const asked = (tx: Transaction) => {
    void tx.query(KEPT);
    return number(tx, 1);
  };
  await database.transaction(asked);
  await database.transaction((tx) => tx.query('DEALLOCATE ALL'));
  await expect(database.transaction(asked)).rejects.toMatchObject({ code: '26000' });
  expect(await database.transaction(asked)).toEqual([{ n: 1 }]);
});

it('waits for statements that are issued after one that the work did not await', async () => {
  const results: number[] = [];
  await database.transaction(async (tx) => {
    void (async () => {
      for (const n of [1, 2, 3]) results.push((await number(tx, n))[0]!.n);
    })();
  });
  expect(results).toEqual([1, 2, 3]);
});

it('fails all pending statements when the connection breaks, and the process survives', async () => {
  let settled: PromiseSettledResult<unknown>[] = [];
  const failing = database.transaction(async (tx) => {
    settled = await Promise.allSettled([
      number(tx, 1),
      tx.query('SELECT pg_terminate_backend(pg_backend_pid()), $1::int', [1]),
      number(tx, 2),
    ]);
  });
  await expect(failing).rejects.toThrow();
  expect(settled[0]!.status).toBe('fulfilled');
  expect(settled.slice(1).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await isInStep();
});
