import pg from 'pg';
import { serversOf } from '../config/database-url-variable.ts';
import { closeClient } from './close-client.ts';
import { firstServerOf, MIN_SERVER_MAJOR } from './connection.ts';
import { Primary } from './primary.ts';
import { clientOf } from './primary-client.ts';

/** The database cannot be used; the message is one line with the next step. */
export class DatabaseUnusableError extends Error {}

/** Connects once and refuses a server on which a promise would not hold. Returns the server's version. */
export async function checkServer(url: string, timeoutMs: number): Promise<string> {
  return queryServer(url, 'sluice check', timeoutMs, async (client) => {
    const { rows } = await client.query(
      `SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int / 10000 AS major,
              current_setting('synchronous_commit') AS durability, current_setting('server_encoding') AS encoding`,
    );
    refuseUnusable(rows[0]);
    return rows[0].version;
  });
}

/** Runs a query on a connection of its own, to a server that may be unreachable or may not reply. */
export async function queryServer<Found>(
  url: string,
  name: string,
  timeoutMs: number,
  query: (client: pg.Client) => Promise<Found>,
): Promise<Found> {
  const Client = clientOf(pg.Client, Primary.of(url));
  const client = new Client({
    connectionString: firstServerOf(url),
    application_name: name,
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs,
  });
  // If the server ends the connection between two statements, the next one fails. Without a handler the process would end.
  client.on('error', () => undefined);
  try {
    await client.connect();
  } catch (error) {
    const reason = (error as Error).message || (error as { code?: string }).code;
    throw new DatabaseUnusableError(
      `cannot reach PostgreSQL at ${addressesOf(url)} (${reason}); check DATABASE_URL and that the server is running`,
    );
  }
  try {
    return await query(client);
  } finally {
    await closeClient(client);
  }
}

/** The addresses of a URL for a message, never the password. */
export function addressesOf(url: string): string {
  return serversOf(url)!
    .map(({ address }) => address)
    .join(', ');
}

export function refuseUnusable(server: {
  version: string;
  major: number;
  durability: string;
  encoding: string;
}): void {
  if (server.major < MIN_SERVER_MAJOR) {
    throw new DatabaseUnusableError(
      `PostgreSQL ${server.version} is too old: version ${MIN_SERVER_MAJOR} or newer is needed; upgrade the server`,
    );
  }
  if (server.durability === 'off') {
    throw new DatabaseUnusableError(
      'synchronous_commit is off: an accepted message could be lost; ALTER ROLE … SET synchronous_commit = on',
    );
  }
  if (server.encoding !== 'UTF8') {
    throw new DatabaseUnusableError(
      `the database has encoding ${server.encoding}: messages need UTF8; CREATE DATABASE … ENCODING 'UTF8'`,
    );
  }
}
