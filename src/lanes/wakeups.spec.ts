import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { startApp, type TestApp } from '../../test/support/app.ts';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { startTcpProxy, type TcpProxy } from '../../test/support/tcp-proxy.ts';
import { until } from '../../test/support/until.ts';

const LISTEN = 'LISTEN sluice_written';

let database: TestDatabase;
let wire: TcpProxy;

beforeEach(async () => {
  database = await createDatabase();
  wire = await startTcpProxy(database.url);
});
afterEach(async () => {
  await wire.close();
  await database.drop();
});

function start(): Promise<TestApp> {
  return startApp({ ...database, url: wire.url }, { ROLES: 'api', DATABASE_STATEMENT_TIMEOUT: '1s' });
}

const listens = () => wire.statements.filter((sql) => sql === LISTEN).length;
/** The listening connections of the database. */
const listening = () =>
  database.query(
    `SELECT FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'sluice listen' AND state = 'idle' AND query = $1`,
    [LISTEN],
  );

it('lets a replica stop whose database goes silent at its LISTEN', async () => {
  const silent = wire.blackHoleAt(LISTEN);
  const replica = await start();
  await silent;
  await replica.close();
});

it('lets a replica stop that is still connecting', async () => {
  for (let times = 0; times < 3; times++) {
    const replica = await start();
    await replica.close();
  }
});

it('lets a replica stop whose database went silent later, without closing the connection', async () => {
  const replica = await start();
  await until(async () => (await listening()).length > 0);
  wire.blackHole();
  await replica.close();
});

it('listens over a new connection when the old one has gone silent', async () => {
  const replica = await start();
  await until(async () => (await listening()).length > 0);
  expect(listens()).toBe(1);
  wire.blackHole();
  await until(() => listens() > 1, 40_000);
  await replica.close();
});
