import type pg from 'pg';
import { loadSettings } from '../../config/settings.ts';
import { pendingMigrations } from '../../database/migrate.ts';
import { readReplication } from '../../database/replication.ts';
import { DatabaseUnusableError, queryServer, refuseUnusable } from '../../database/server-check.ts';
import { clockFinding } from './clock-finding.ts';
import { type Finding, failed, ok, warning } from './finding.ts';
import { replicationFinding } from './replication-finding.ts';

/** doctor.query — the state of a server that decides whether the promises hold on it. */
export const DOCTOR_QUERY = `
  SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int / 10000 AS major,
         current_setting('synchronous_commit') AS durability, current_setting('server_encoding') AS encoding,
         current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
         current_setting('transaction_read_only') AS read_only, current_setting('autovacuum') AS autovacuum,
         current_setting('default_transaction_isolation') AS isolation,
         current_setting('max_connections')::int AS max_connections,
         (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
         (SELECT extract(epoch FROM max(clock_timestamp() - xact_start))::float8 FROM pg_stat_activity
          WHERE backend_type = 'client backend' AND datname = current_database()) AS longest_transaction,
         (SELECT count(*) FROM pg_replication_slots WHERE NOT active) AS slots_behind,
         (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now_ms`;

/** The row that DOCTOR_QUERY returns. */
export interface ServerState {
  readonly version: string;
  readonly major: number;
  readonly durability: string;
  readonly encoding: string;
  readonly fsync: string;
  readonly full_page_writes: string;
  readonly read_only: string;
  readonly autovacuum: string;
  readonly isolation: string;
  readonly max_connections: number;
  readonly connections: number;
  readonly longest_transaction: number | null;
  readonly slots_behind: string;
  readonly now_ms: number;
}

const TIMEOUT_MS = 10_000;
const LONG_TRANSACTION_SECONDS = 300;

/** Checks the server with the connection a replica would use. */
export async function checkDatabase(
  url: string,
  readModels: readonly string[] = [],
): Promise<readonly Finding[]> {
  try {
    return await queryServer(url, 'sluice doctor', TIMEOUT_MS, (client) => findings(client, url, readModels));
  } catch (error) {
    if (error instanceof DatabaseUnusableError) return [failed('database', error.message)];
    throw error;
  }
}

async function findings(
  client: pg.Client,
  url: string,
  readModels: readonly string[],
): Promise<readonly Finding[]> {
  const askedAtMs = Date.now();
  const { rows } = await client.query<ServerState>(DOCTOR_QUERY);
  const halfwayMs = (askedAtMs + Date.now()) / 2;
  const state = rows[0]!;
  const replication = await readReplication(async (sql) => (await client.query(sql)).rows);
  return [
    ...findingsOf(state, halfwayMs),
    ...(state.read_only === 'on' ? [] : [replicationFinding(replication)]),
    await schema(url, readModels),
  ];
}

/** Pure: derives the findings from the state of the server. */
export function findingsOf(state: ServerState, halfwayMs: number): readonly Finding[] {
  const ahead = clockFinding('clock of the database', Number(state.now_ms) - halfwayMs);
  return [usable(state), ...durability(state), ahead, ...load(state)];
}

function usable(state: ServerState): Finding {
  try {
    refuseUnusable(state);
    return ok('database', `PostgreSQL ${state.version}, ${state.encoding}`);
  } catch (error) {
    return failed('database', (error as Error).message);
  }
}

function durability({ fsync, full_page_writes, read_only }: ServerState): Finding[] {
  const findings: Finding[] = [];
  if (fsync === 'off')
    findings.push(
      failed('durability', 'fsync is off', 'a crash of the machine can destroy the database: set fsync = on'),
    );
  if (full_page_writes === 'off')
    findings.push(
      failed('durability', 'full_page_writes is off', 'safe only if the file system writes pages atomically'),
    );
  if (read_only === 'on')
    findings.push(
      failed('durability', 'the server is a standby, or read-only', 'point DATABASE_URL at the primary'),
    );
  return findings.length ? findings : [ok('durability', 'fsync, full_page_writes, synchronous_commit')];
}

function load(state: ServerState): Finding[] {
  const findings: Finding[] = [];
  const { connections, max_connections: max, longest_transaction: longest } = state;
  const used = `${connections} of ${max}`;
  findings.push(
    connections > max * 0.9
      ? warning('connections', used, 'raise max_connections, or lower DATABASE_POOL_SIZE')
      : ok('connections', used),
  );
  if (longest !== null && longest > LONG_TRANSACTION_SECONDS)
    findings.push(
      warning(
        'transactions',
        `a transaction has been open for ${Math.round(longest)} s`,
        'vacuum cannot remove dead rows meanwhile, and claims get slow: end it',
      ),
    );
  if (state.autovacuum === 'off')
    findings.push(failed('autovacuum', 'off', 'frequently updated tables need it: set autovacuum = on'));
  if (state.isolation !== 'read committed')
    findings.push(
      warning('isolation', `default is ${state.isolation}`, 'the engine is designed for read committed'),
    );
  if (Number(state.slots_behind) > 0)
    findings.push(
      warning('replication slots', `${state.slots_behind} inactive`, 'their WAL fills the disk: drop them'),
    );
  return findings;
}

/** The migrations of this version, and of the read models in these files, against those of the database. */
async function schema(url: string, files: readonly string[]): Promise<Finding> {
  await import('reflect-metadata');
  const { schemaOf } = await import('../../schema.ts');
  const { loadReadModels } = await import('../../load-read-models.ts');
  const parts = schemaOf(await loadReadModels(files));
  const pending = await pendingMigrations(url, loadSettings({ DATABASE_URL: url }), parts);
  if (pending.length === 0) return ok('migrations', 'up to date');
  return failed('migrations', `${pending.length} pending: ${pending.join(', ')}`, 'run "npm run migrate"');
}
