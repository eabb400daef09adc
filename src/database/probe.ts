import pg from 'pg';
import { closeClient } from './close-client.ts';

/** A server of a healthy network replies within milliseconds, unless it is overloaded. */
const PROBE_TIMEOUT_MS = 2_000;
/** On a connection that is open already. */
const QUERY_TIMEOUT_MS = 1_000;

/** `primary` accepts writes. */
type Role = 'primary' | 'standby';

/** Which role the server has; throws if it does not reply. */
export async function roleOf(url: string): Promise<Role> {
  const client = new pg.Client(probeOptions(url));
  client.on('error', () => undefined);
  try {
    await client.connect();
    return await queryRole(client);
  } finally {
    void closeClient(client);
  }
}

export async function queryRole(client: pg.Client): Promise<Role> {
  const { rows } = await client.query('SHOW transaction_read_only');
  return rows[0].transaction_read_only === 'on' ? 'standby' : 'primary';
}

export function probeOptions(url: string): pg.ClientConfig {
  return {
    connectionString: url,
    application_name: 'sluice probe',
    connectionTimeoutMillis: PROBE_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
  };
}
