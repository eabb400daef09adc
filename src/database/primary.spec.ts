import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { startSilentServer } from '../../test/support/silent-server.ts';
import { startTcpProxy, type TcpProxy } from '../../test/support/tcp-proxy.ts';
import { loadSettings } from '../config/settings.ts';
import { Database } from './database.ts';
import { isReadOnly } from './errors.ts';
import { Primary } from './primary.ts';

let server: TestDatabase;
let proxies: TcpProxy[];
let url: string;
let database: Database;
let primary: Primary;

beforeEach(async () => {
  server = await createDatabase({ empty: true });
  proxies = [await startTcpProxy(server.url), await startTcpProxy(server.url)];
  url = severalHosts(proxies.map((proxy) => proxy.url));
  database = new Database(url, loadSettings({}), undefined, () => undefined);
  primary = Primary.of(url)!;
});
afterEach(async () => {
  await database.close();
  for (const proxy of proxies) await proxy.close();
  await server.drop();
});

/** The database at these addresses. */
function severalHosts(urls: readonly string[]): string {
  return server.url.replace(new URL(server.url).host, urls.map((one) => new URL(one).host).join(','));
}

const proxyOf = (port: number) => proxies.find((proxy) => Number(new URL(proxy.url).port) === port)!;

describe('a database URL with several hosts', () => {
  it('leads to the server that accepts writes, past one that does not reply', async () => {
    const silent = await startSilentServer();
    const several = severalHosts([silent.url, proxies[0]!.url]);
    const other = new Database(several, loadSettings({}), undefined, () => undefined);
    try {
      expect(await other.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
    } finally {
      await other.close();
      await silent.close();
    }
  });

  it('leaves a machine that is lost and closes no connection, with the statements that wait for it', async () => {
    const silent = await startSilentServer();
    await database.query('SELECT');
    const lost = await primary.find();
    const waiting = database.query('SELECT pg_sleep(20)');
    const listening = database.standaloneClient('sluice listen');
    await listening.connect();
    const ended = new Promise((resolve) => listening.once('end', resolve).once('error', () => undefined));
    const moved = new Promise((resolve) => primary.once('moved', (...which) => resolve(which)));

    proxyOf(lost.port).blackHole();
    proxyOf(lost.port).switchTo(silent.url);

    await expect(waiting).rejects.toThrow('Connection terminated');
    await ended;
    const found = await primary.find();
    expect(found).not.toBe(lost);
    expect(await moved).toEqual([lost.address, found.address]);
    expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await silent.close();
  });

  it('does not use a server that became read-only, and says what each one replied', async () => {
    await primary.find();
    await server.query(`DO $$ BEGIN
      EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`);

    const refused = await database.query('SELECT').catch((error) => error);
    expect([isReadOnly(refused), refused.message]).toEqual([
      true,
      expect.stringMatching(/is not the primary any more$/),
    ]);
    await expect(primary.find(400)).rejects.toThrow(
      /^no server accepts writes: 127.0.0.1:\d+: it is a standby, or read-only; 127.0.0.1:\d+: it is a standby, or read-only$/,
    );
  });

  it('has one search for all who wait', async () => {
    await Promise.all(Array.from({ length: 50 }, () => primary.find()));
    expect(proxies.map(({ statements }) => statements.length <= 1)).toEqual([true, true]);
  });
});
