import { type SpawnOptions, spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import type { Account } from './account.ts';

/** The result of a program: its output, or the line of it that explains the failure. */
export type ProgramResult = { ok: true; output: string } | { ok: false; reason: string };

/** Spawn options for PostgreSQL's programs. They get no PG* variables of this process, and print English messages. */
export function asAccount(account: Account, cwd: string): SpawnOptions {
  // Windows programs do not start without SystemRoot and friends.
  const environment = process.platform === 'win32' ? {} : { env: { LC_ALL: 'C' } };
  return { cwd, ...environment, ...account };
}

/** Runs a program and waits for its end. */
export async function runProgram(
  file: string,
  args: string[],
  options: SpawnOptions,
  input = '',
): Promise<ProgramResult> {
  try {
    const child = spawn(file, args, { ...options, stdio: ['pipe', 'pipe', 'pipe'] });
    const ended = new Promise<number | string | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code, signal) => resolve(signal ?? code));
    });
    child.stdin?.on('error', () => {}); // it may exit without reading its input; its exit code is enough
    child.stdin?.end(input);
    const [end, output, complaints] = await Promise.all([ended, text(child.stdout!), text(child.stderr!)]);
    if (end === 0) return { ok: true, output };
    return {
      ok: false,
      reason: informativeLine(complaints) ?? informativeLine(output) ?? `exit code ${end}`,
    };
  } catch (error) {
    return { ok: false, reason: (error as Error).message }; // spawn reports some failures by throwing
  }
}

/* Excludes messages to clients that reconnected too early. */
const FAILURE = /\b(FATAL|PANIC|error):(?!\s+the database system is)/;

/**
 * The most informative line of a log, without its time and pid: the first failure (with a full disk the first line names
 * it, and the last is a PANIC about something else), or the last line if there is no failure.
 */
export function informativeLine(log: string): string | undefined {
  const lines = log.split('\n').filter((line) => line.trim() !== '');
  const line = lines.find((candidate) => FAILURE.test(candidate)) ?? lines.at(-1);
  return line?.replace(/^[\d-]+ [\d:.]+ \S+ \[\d+\] /, '').trim();
}
