import type { Fault } from './schedule.ts';

/** A line that a replica wrote and that says that something went wrong. */
export interface Logged {
  /** Which replica. */
  readonly place: number;
  /** When the line was read, by the clock of the run: the replica's own may be wrong. */
  readonly atMs: number;
  readonly level: string;
  /** `stderr`: it is no line of the log at all. */
  readonly event: string;
  /** Of a loop that failed. */
  readonly loop: string | undefined;
  readonly error: LoggedError | undefined;
  readonly text: string;
}

export interface LoggedError {
  readonly name?: string;
  readonly message?: string;
  readonly code?: string;
}

/** A fault that was injected, and when; without an end: all the time. */
export interface Injected {
  readonly fault: Fault;
  readonly fromMs: number;
  readonly toMs: number;
  /** The replica that it fell on; undefined: all of them. */
  readonly place: number | undefined;
}

const SEVERE = ['error', 'fatal'];
/** Why a process ends, for a person. */
const EXIT_LINE = /^sluice: (?:(\w*Error): )?(.*)$/;
/** SQLSTATE of a client that cannot connect; what the line says besides depends on how it failed. */
const CANNOT_CONNECT = '08001';

/** Undefined: nothing went wrong. A warning counts where it has an error with it: something failed, and is tried again. */
export function loggedIn(text: string, place: number, atMs: number): Logged | undefined {
  const line = parsed(text);
  if (!line) return undefined;
  const { level = '', event = '', loop, error } = line;
  if (!SEVERE.includes(level) && error === undefined) return undefined;
  return { place, atMs, level, event, loop, error, text };
}

/** On stderr there is nothing but why a process ends, and what nobody expected; a stack belongs to the line before it. */
export function loggedOnStderr(text: string, place: number, atMs: number): Logged | undefined {
  if (!/^\S/.test(text)) return undefined;
  const [, name = '', message = text] = EXIT_LINE.exec(text) ?? [];
  const away = message.startsWith('cannot reach PostgreSQL') ? { code: CANNOT_CONNECT } : {};
  return {
    place,
    atMs,
    level: 'fatal',
    event: 'stderr',
    loop: undefined,
    error: { name, message, ...away },
    text,
  };
}

function parsed(text: string): Partial<Pick<Logged, 'level' | 'event' | 'loop' | 'error'>> | undefined {
  try {
    return JSON.parse(text) ?? undefined;
  } catch {
    return undefined;
  }
}
