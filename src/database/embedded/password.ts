import { randomBytes } from 'node:crypto';
import { open, readFile, rename } from 'node:fs/promises';
import { type Cluster, dataArgument } from './cluster.ts';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import { asAccount, type ProgramResult, runProgram } from './run-program.ts';

/** The role that owns the embedded database: a superuser, reachable on loopback with a generated password. */
export const ROLE = 'sluice';

export function generatePassword(): string {
  return randomBytes(24).toString('base64url'); // needs no quoting in SQL or in a URL
}

export async function readPassword(cluster: Cluster): Promise<string | null> {
  const kept = await readFile(cluster.layout.password, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
  return kept.trim() || null;
}

export async function keepPassword(cluster: Cluster, password: string): Promise<void> {
  const half = `${cluster.layout.password}.new`;
  const file = await open(half, 'w', 0o600);
  try {
    await file.chmod(0o600);
    await file.writeFile(`${password}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(half, cluster.layout.password);
}

/** Sets a new password if the password file was lost: without one the data would be unusable. */
export async function replacePassword(cluster: Cluster): Promise<string> {
  const password = generatePassword();
  const set = await runSql(cluster, cluster.layout.data, `ALTER ROLE ${ROLE} PASSWORD '${password}'`);
  if (!set.ok) {
    throw new EmbeddedPostgresError(
      `${cluster.layout.password} is missing and no new password could be set (${set.reason}): ` +
        'put the file back, or set DATABASE_URL.',
    );
  }
  await keepPassword(cluster, password); // last: if this fails, the next start sets a new password again
  return password;
}

/** Runs one statement in single-user mode: no server, no password, no client needed. */
export async function runSql(cluster: Cluster, directory: string, statement: string): Promise<ProgramResult> {
  const args = ['--single', '-D', dataArgument(cluster, directory), '-c', 'exit_on_error=on', 'postgres'];
  return runProgram(
    cluster.binaries.postgres,
    args,
    asAccount(cluster.account, directory),
    `${statement};\n`,
  );
}
