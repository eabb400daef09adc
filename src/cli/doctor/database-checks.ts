import type pg from 'pg';
import { loadSettings } from '../../config/settings.ts';
import { pendingMigrations } from '../../database/migrate.ts';
import { DatabaseUnusableError, queryServer, refuseUnusable } from '../../database/server-check.ts';
import { clockFinding } from './clock-finding.ts';
import { DOCTOR_QUERY } from './doctor.sql.ts';
import { type Finding, fault, ok, warning } from './finding.ts';

/** What the statement answers with. */
export interface Look {
  readonly version: string;
  readonly major: number;
  readonly durability: string;
  readonly encoding: string;
  readonly fsync: string;
  readonly full_page_writes: string;
  readonly read_only: string;
  readonly autovacuum: string;
  readonly isolation: string;
  readonly most_connections: number;
  readonly connections: number;
  readonly longest_transaction: number | null;
  readonly slots_behind: string;
  readonly now_ms: number;
}

const TIMEOUT_MS = 10_000;
const LONG_TRANSACTION_SECONDS = 300;

/** The server as replicas would find it. */
export async function checkDatabase(url: string): Promise<readonly Finding[]> {
  try {
    return await queryServer(url, 'sluice doctor', TIMEOUT_MS, (client) => findings(client, url));
  } catch (error) {
    if (error instanceof DatabaseUnusableError) return [fault('database', error.message)];
    throw error;
  }
}

async function findings(client: pg.Client, url: string): Promise<readonly Finding[]> {
  const askedAtMs = Date.now();
  const { rows } = await client.query<Look>(DOCTOR_QUERY);
  const halfwayMs = (askedAtMs + Date.now()) / 2;
  const look = rows[0]!;
  return [...findingsOf(look, halfwayMs), await schema(url)];
}

/** Pure. */
export function findingsOf(look: Look, halfwayMs: number): readonly Finding[] {
  const ahead = clockFinding('clock of the database', Number(look.now_ms) - halfwayMs);
  return [usable(look), ...durable(look), ahead, ...burdens(look)];
}

function usable(look: Look): Finding {
  try {
    refuseUnusable(look);
    return ok('database', `PostgreSQL ${look.version}, ${look.encoding}`);
  } catch (error) {
    return fault('database', (error as Error).message);
  }
}

function durable({ fsync, full_page_writes, read_only }: Look): Finding[] {
  const findings: Finding[] = [];
  if (fsync === 'off')
    findings.push(
      fault('durability', 'fsync is off', 'a crash of the machine can destroy the database: set fsync = on'),
    );
  if (full_page_writes === 'off')
    findings.push(
      fault('durability', 'full_page_writes is off', 'safe only where the disk writes pages as a whole'),
    );
  if (read_only === 'on')
    findings.push(fault('durability', 'it is a standby, or read-only', 'point DATABASE_URL at the primary'));
  return findings.length ? findings : [ok('durability', 'fsync, full_page_writes, synchronous_commit')];
}

function burdens(look: Look): Finding[] {
  const findings: Finding[] = [];
  const { connections, most_connections: most, longest_transaction: longest } = look;
  const used = `${connections} of ${most}`;
  findings.push(
    connections > most * 0.9
      ? warning('connections', used, 'raise max_connections, or lower DATABASE_POOL_SIZE')
      : ok('connections', used),
  );
  if (longest !== null && longest > LONG_TRANSACTION_SECONDS)
    findings.push(
      warning(
        'transactions',
        `one has been open for ${Math.round(longest)} s`,
        'nothing dead can be removed meanwhile, and claims grow slow: end it',
      ),
    );
  if (look.autovacuum === 'off')
    findings.push(
      fault('autovacuum', 'off', 'tables that are updated all the time need it: set autovacuum = on'),
    );
  if (look.isolation !== 'read committed')
    findings.push(
      warning('isolation', `default is ${look.isolation}`, 'read committed is what the engine is made for'),
    );
  if (Number(look.slots_behind) > 0)
    findings.push(
      warning(
        'replication slots',
        `${look.slots_behind} nobody reads`,
        'their WAL fills the disk: drop them',
      ),
    );
  return findings;
}

/** The migrations of this version against those of the database. */
async function schema(url: string): Promise<Finding> {
  await import('reflect-metadata');
  const { SCHEMA } = await import('../../schema.ts');
  const pending = await pendingMigrations(url, loadSettings({ DATABASE_URL: url }), SCHEMA);
  if (pending.length === 0) return ok('migrations', 'up to date');
  return fault('migrations', `${pending.length} to run: ${pending.join(', ')}`, 'run "npm run migrate"');
}
