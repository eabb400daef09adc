import { serversOf } from '../../config/database-url-variable.ts';
import { DatabaseUnusableError, queryServer } from '../../database/server-check.ts';
import { type Finding, failed, ok, warning } from './finding.ts';

/** Of the primary or a standby; `run` differs between two servers. */
const SERVER_STATE = `
  SELECT (SELECT system_identifier FROM pg_control_system())::text AS cluster, pg_is_in_recovery() AS "isStandby",
         extract(epoch FROM pg_postmaster_start_time())::text AS run,
         pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, '0/0')::float8 AS position`;

export interface ServerPosition {
  readonly cluster: string;
  readonly isStandby: boolean;
  readonly run: string;
  readonly position: number;
}

const TIMEOUT_MS = 10_000;
const KIB = 1024;
/** A segment of the WAL: more than what is on its way. */
const WARN_LAG_KIB = 16 * KIB;

/** Checks each server of READ_DATABASE_URL against the primary. */
export async function checkStandbys(
  readDatabaseUrl: string,
  databaseUrl: string,
): Promise<readonly Finding[]> {
  const [primary, ...standbys] = await Promise.all([
    positionOf(databaseUrl),
    ...serversOf(readDatabaseUrl)!.map(async ({ address, url }) => {
      // Two connections: a name can resolve to several servers.
      const [first, second] = await Promise.all([positionOf(url), positionOf(url)]);
      return { address, first, second };
    }),
  ]);
  if (typeof primary === 'string') return [];
  return standbys.map(({ address, first, second }) =>
    typeof first === 'string' || typeof second === 'string'
      ? warning(
          `standby ${address}`,
          String(first),
          'reads go to the primary: start it, or check READ_DATABASE_URL',
        )
      : standbyFinding(address, primary, first, second),
  );
}

/** Pure: whether a server can serve reads. */
export function standbyFinding(
  address: string,
  primary: ServerPosition,
  first: ServerPosition,
  second: ServerPosition,
): Finding {
  const check = `standby ${address}`;
  if (first.run !== second.run)
    return failed(check, 'the name resolves to several servers', 'name each of them in READ_DATABASE_URL');
  if (first.cluster !== primary.cluster)
    return failed(
      check,
      'it belongs to another PostgreSQL than DATABASE_URL',
      'it is left out: name standbys of the primary',
    );
  if (!first.isStandby)
    return warning(check, 'it is not a standby', 'it is left out, which is right if it is the primary');
  const kib = Math.max(0, Math.round((primary.position - first.position) / KIB));
  return kib > WARN_LAG_KIB
    ? warning(check, `${kib} KiB behind`, 'beyond READ_MAX_LAG it is left out: find what delays the replay')
    : ok(check, `serves reads; ${kib} KiB behind`);
}

/** The error, if the server could not be asked. */
async function positionOf(url: string): Promise<ServerPosition | string> {
  try {
    return await queryServer(url, 'sluice doctor', TIMEOUT_MS, async (client) => {
      const { rows } = await client.query<ServerPosition>(SERVER_STATE);
      return rows[0]!;
    });
  } catch (error) {
    if (error instanceof DatabaseUnusableError)
      return error.message.replace('; check DATABASE_URL and that', '; check that');
    throw error;
  }
}
