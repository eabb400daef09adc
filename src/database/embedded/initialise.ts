import { mkdir, mkdtemp, open, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { giveTo } from './account.ts';
import { type Cluster, dataArgument } from './cluster.ts';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import { generatePassword, keepPassword, ROLE, readPassword, runSql } from './password.ts';
import { asAccount, type ProgramResult, runProgram } from './run-program.ts';

export const DATABASE = 'sluice';
const UNFINISHED_PREFIX = 'initializing-';

/* --locale=C with PostgreSQL's builtin C.UTF-8: the same sort order and case rules on every machine, whatever locales
   are installed. */
const INITDB_OPTIONS = [
  `--username=${ROLE}`,
  '--pwfile=../password',
  '--auth=scram-sha-256',
  '--encoding=UTF8',
  '--locale=C',
  '--locale-provider=builtin',
  '--builtin-locale=C.UTF-8',
  '--data-checksums',
];

/**
 * Creates the data directory with the database in it. Everything happens in a temporary sibling folder that is renamed
 * at the end: if the process is killed at any point, it leaves only a folder that the next start deletes.
 */
export async function initialise(
  cluster: Cluster,
  durable: boolean,
  log: (line: string) => void,
): Promise<void> {
  const { root, data } = cluster.layout;
  log(`creating a PostgreSQL ${cluster.binaries.major} database in ${data}`);
  const password = (await readPassword(cluster)) ?? generatePassword();
  const staging = await mkdtemp(join(root, UNFINISHED_PREFIX));
  try {
    const staged = await stage(cluster, staging, password);
    await runInitdb(cluster, staged, durable);
    requireSuccess(
      await runSql(cluster, staged, `CREATE DATABASE ${DATABASE}`),
      'create the database',
      cluster,
    );
    await keepPassword(cluster, password);
    await rename(staged, data);
    if (durable) await syncDirectory(root);
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

/** Deletes what a killed start left. Best effort: an initdb that is still writing is cleaned up by the next start. */
export async function removeUnfinished(root: string): Promise<void> {
  for (const name of await readdir(root)) {
    if (!name.startsWith(UNFINISHED_PREFIX)) continue;
    await rm(join(root, name), { recursive: true, force: true, maxRetries: 5 }).catch(() => {});
  }
}

/* initdb reads the password from a file next to its folder, because its account may not be able to read the original. */
async function stage(cluster: Cluster, staging: string, password: string): Promise<string> {
  const staged = join(staging, 'postgres');
  await mkdir(staged, { mode: 0o700 });
  await writeFile(join(staging, 'password'), `${password}\n`, { mode: 0o600 });
  await giveTo(cluster.account, staging);
  return staged;
}

async function runInitdb(cluster: Cluster, staged: string, durable: boolean): Promise<void> {
  const args = ['-D', dataArgument(cluster, staged), ...INITDB_OPTIONS, ...(durable ? [] : ['--no-sync'])];
  const made = await runProgram(cluster.binaries.initdb, args, asAccount(cluster.account, staged));
  requireSuccess(made, 'initialise the data', cluster);
}

async function syncDirectory(directory: string): Promise<void> {
  if (process.platform === 'win32') return; // a directory cannot be opened there
  const handle = await open(directory, 'r');
  await handle.sync().finally(() => handle.close());
}

function requireSuccess(result: ProgramResult, what: string, cluster: Cluster): void {
  if (result.ok) return;
  throw new EmbeddedPostgresError(
    `The embedded PostgreSQL could not ${what} in ${cluster.layout.root} (${result.reason}): ` +
      'fix the cause and start again, or set DATABASE_URL.',
  );
}
