import { execFile } from 'node:child_process';
import { readFile, stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const onLinux = process.platform === 'linux';

/**
 * Distinguishes a process from a later one with the same pid, by boot and start time. Null if the pid is not running. A
 * zombie is not running (pid 1 of a container may never reap it, and `kill(pid, 0)` succeeds for it).
 */
export async function processIdentity(pid: number): Promise<string | null> {
  return onLinux ? identityFromProc(pid) : identityFromPs(pid);
}

/** Whether `pid` is a PostgreSQL that runs on this data directory; false if that cannot be determined. */
export async function isPostgresOn(dataDirectory: string, pid: number): Promise<boolean> {
  if ((await processIdentity(pid)) === null) return false;
  return onLinux ? isPostgresByProc(dataDirectory, pid) : isPostgresByPs(dataDirectory, pid);
}

/** Polls until `condition` holds; false if it does not within `withinMs`. */
export async function eventually(condition: () => Promise<boolean>, withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > deadline) return false;
    await delay(20);
  }
  return true;
}

/* The boot id is included: a machine that boots the same way each time repeats pids and start ticks. */
async function identityFromProc(pid: number): Promise<string | null> {
  const line = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null);
  if (line === null) return null;
  // The second field is the command in parentheses and may itself hold spaces and parentheses.
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ');
  const [state, startTick] = [fields[0], fields[19]];
  if (state === 'Z' || state === 'X') return null;
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => 'boot');
  return `${boot.slice(0, 8)}-${startTick}`;
}

async function identityFromPs(pid: number): Promise<string | null> {
  const shown = await ps(pid, 'stat', 'lstart');
  if (shown === null) return isAlive(pid) ? 'alive' : null;
  return shown.startsWith('Z') ? null : shown.replace(/^\S+\s+/, '').replace(/\W+/g, '-');
}

/* Compares the working directory as the kernel sees it, not the arguments: these may contain another path to the same
   folder, or /proc/self/cwd. */
async function isPostgresByProc(dataDirectory: string, pid: number): Promise<boolean> {
  try {
    const command = await readFile(`/proc/${pid}/comm`, 'utf8');
    const [theirs, ours] = await Promise.all([stat(`/proc/${pid}/cwd`), stat(dataDirectory)]);
    return command.trim() === 'postgres' && theirs.dev === ours.dev && theirs.ino === ours.ino;
  } catch {
    return false;
  }
}

async function isPostgresByPs(dataDirectory: string, pid: number): Promise<boolean> {
  const command = await ps(pid, 'command');
  return command !== null && /\bpostgres\b/.test(command) && command.includes(`-D ${dataDirectory} `);
}

/* Locale and time zone are fixed, because the start time is compared with one that another process has read. */
async function ps(pid: number, ...columns: string[]): Promise<string | null> {
  const args = ['-ww', ...columns.flatMap((column) => ['-o', `${column}=`]), '-p', String(pid)];
  const env = { LC_ALL: 'C', TZ: 'UTC', PATH: '/bin:/usr/bin' };
  const shown = await promisify(execFile)('ps', args, { env }).catch(() => null);
  return shown?.stdout.trim() || null;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
