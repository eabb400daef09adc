import { type SpawnOptions, spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import type { Account } from './account.ts';

/** How a program ended: with its output, or with the line that says why not. */
export type ProgramResult = { ok: true; output: string } | { ok: false; reason: string };

/** Spawn options for a program of PostgreSQL's. No PG* variable of ours may steer it, and it speaks English. */
export function asAccount(account: Account, cwd: string): SpawnOptions {
  // Windows programs do not start without SystemRoot and friends.
  const environment = process.platform === 'win32' ? {} : { env: { LC_ALL: 'C' } };
  return { cwd, ...environment, ...account };
}

/** Runs a program to its end. */
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
    child.stdin?.on('error', () => {}); // it may end without reading its input; how it ended says enough
    child.stdin?.end(input);
    const [end, output, complaints] = await Promise.all([ended, text(child.stdout!), text(child.stderr!)]);
    if (end === 0) return { ok: true, output };
    return { ok: false, reason: tellingLine(complaints) ?? tellingLine(output) ?? `it ended with ${end}` };
  } catch (error) {
    return { ok: false, reason: (error as Error).message }; // spawn reports some failures by throwing
  }
}

/* Not the complaint of a client that came back too early. */
const FAILURE = /\b(FATAL|PANIC|error):(?!\s+the database system is)/;

/**
 * The line of a log that tells most, without the time and pid in front: the first failure (a full disk
 * says so first and ends in a PANIC about something else), or, if there is none, the last line.
 */
export function tellingLine(log: string): string | undefined {
  const lines = log.split('\n').filter((line) => line.trim() !== '');
  const line = lines.find((candidate) => FAILURE.test(candidate)) ?? lines.at(-1);
  return line?.replace(/^[\d-]+ [\d:.]+ \S+ \[\d+\] /, '').trim();
}
