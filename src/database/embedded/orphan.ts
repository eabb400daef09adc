import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import { eventually, isPostgresOn, processIdentity } from './process-table.ts';
import { shutDown } from './shut-down.ts';

/**
 * A service that was killed (kill -9) leaves its postmaster running on the data. It is stopped here, after this process
 * has claimed the folder, but only if the pid is a PostgreSQL on this folder: the pid in the file may belong to another
 * process by now.
 */
export async function stopOrphan(data: string, log: (line: string) => void): Promise<void> {
  const pid = await postmasterPid(data);
  if (pid === null) return;
  if (!(await isPostgresOn(data, pid))) return forgetRecycledPid(data, pid);
  log(`stopping the PostgreSQL (process ${pid}) that a killed service left running on ${data}`);
  const isGone = async () => !(await isPostgresOn(data, pid));
  const stopped = await shutDown(
    (name) => signalIfAlive(pid, name),
    (withinMs) => eventually(isGone, withinMs),
  );
  if (!stopped) {
    throw new EmbeddedPostgresError(
      `A PostgreSQL that a killed service left running on ${data} (process ${pid}) does not stop: ` +
        'stop it by hand and start again, or set DATABASE_URL.',
    );
  }
}

/** The pid in postmaster.pid; single-user mode writes it negative. */
export async function postmasterPid(data: string): Promise<number | null> {
  const lines = await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '');
  return Math.abs(Number.parseInt(lines, 10)) || null;
}

/* PostgreSQL only checks whether the pid is alive, and would refuse to start because of an unrelated process. A file with
   a dead pid is left to PostgreSQL, which also checks for backends that outlived their postmaster. */
async function forgetRecycledPid(data: string, pid: number): Promise<void> {
  if (process.platform === 'win32') return; // the pid was not verified there
  const isAlive = (await processIdentity(pid)) !== null || isZombie(pid);
  if (isAlive) await rm(join(data, 'postmaster.pid'), { force: true });
}

function isZombie(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

function signalIfAlive(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
