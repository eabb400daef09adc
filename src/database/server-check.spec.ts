import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { startSilentServer } from '../../test/support/silent-server.ts';
import { startTcpProxy } from '../../test/support/tcp-proxy.ts';
import { loadSettings } from '../config/settings.ts';
import { migrate } from './migrate.ts';
import { checkServer, DatabaseUnusableError, queryServer, refuseUnusable } from './server-check.ts';

let server: TestDatabase;

beforeAll(async () => {
  server = await createDatabase({ empty: true });
});
afterAll(() => server.drop());

describe('the check of the server at the start', () => {
  it('returns the version of a usable server', async () => {
    const [row] = await server.query<{ version: string }>(
      `SELECT current_setting('server_version') AS version`,
    );
    expect(await checkServer(server.url, 5_000)).toBe(row!.version);
  });

  it('names the address, the reason and the next step when the server is unreachable, never the password', async () => {
    const message = await refusal(checkServer('postgres://someone:canary@127.0.0.1:1/z', 5_000));
    expect(message).toMatch(
      /^cannot reach PostgreSQL at 127\.0\.0\.1:1 \(.*ECONNREFUSED.*\); check DATABASE_URL/,
    );
    expect(message).not.toMatch(/canary|\n/);
  });

  it('names the reason when several addresses refuse, although the error of Node has no message', async () => {
    expect(await refusal(checkServer('postgres://x:y@localhost:1/z', 5_000))).toContain('ECONNREFUSED');
  });

  it('does not wait for ever for a server that accepts and never replies', async () => {
    const silent = await startSilentServer();
    expect(await refusal(checkServer(silent.url, 50))).toContain('timeout');
    await silent.close();
  });

  it('does not wait for ever for a server that replies and does not close the connection', async () => {
    const wire = await startTcpProxy(server.url);
    expect(await queryServer(wire.url, 'test', 5_000, async () => wire.blackHole())).toBeUndefined();
    await wire.close();
  });

  it('fails, and does not end the process, when the server ends the connection between two statements', async () => {
    const query = queryServer(server.url, 'test', 5_000, async (client) => {
      const ended = new Promise((resolve) => client.once('end', resolve));
      const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
      await server.query('SELECT pg_terminate_backend($1)', [rows[0].pid]);
      await ended;
      await client.query('SELECT 1');
    });
    await expect(query).rejects.toThrow('Client has encountered a connection error');
  });

  it("passes on the server's message about the login", async () => {
    const wrong = new URL(server.url);
    wrong.pathname = '/nosuchdatabase';
    expect(await refusal(checkServer(wrong.href, 5_000))).toContain('"nosuchdatabase" does not exist');
  });

  it('refuses a database on which a commit is not durable', async () => {
    const name = new URL(server.url).pathname.slice(1);
    await server.query(`ALTER DATABASE ${name} SET synchronous_commit = off`);
    expect(await refusal(checkServer(server.url, 5_000))).toMatch(/^synchronous_commit is off: .*ALTER ROLE/);
    await server.query(`ALTER DATABASE ${name} RESET synchronous_commit`);
  });

  it('refuses a database that cannot hold every character', async () => {
    const name = `${new URL(server.url).pathname.slice(1)}_ascii`;
    await server.query(`CREATE DATABASE ${name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0`);
    const url = new URL(server.url);
    url.pathname = `/${name}`;
    expect(await refusal(checkServer(url.href, 5_000))).toMatch(/encoding SQL_ASCII.*ENCODING 'UTF8'/);
    await server.query(`DROP DATABASE ${name}`);
  });

  it('refuses a server older than the oldest supported version', () => {
    const serverOf = (major: number) => ({
      version: `${major}.9`,
      major,
      durability: 'on',
      encoding: 'UTF8',
    });
    expect(() => refuseUnusable(serverOf(14))).not.toThrow();
    expect(() => refuseUnusable(serverOf(13))).toThrow(
      new DatabaseUnusableError(
        'PostgreSQL 13.9 is too old: version 14 or newer is needed; upgrade the server',
      ),
    );
  });
});

describe('the migrations at the start', () => {
  it('do not wait for ever for a server that accepts and never replies', async () => {
    const silent = await startSilentServer();
    const settings = { ...loadSettings({}), databaseConnectTimeout: 50 };
    await expect(migrate(silent.url, settings, [])).rejects.toThrow('timeout');
    await silent.close();
  });
});

async function refusal(check: Promise<string>): Promise<string> {
  const error = await check.catch((error: unknown) => error);
  expect(error).toBeInstanceOf(DatabaseUnusableError);
  return (error as Error).message;
}
