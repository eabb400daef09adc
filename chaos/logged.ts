import type { Fault } from './schedule.ts';

/** A line of a replica that reports an error. */
export interface Logged {
  /** Which replica. */
  readonly slot: number;
  /** When the line was read, by the clock of the run: the replica's own clock may be off. */
  readonly atMs: number;
  readonly level: string;
  /** `stderr`: a line on stderr instead of a log line. */
  readonly event: string;
  /** The loop that failed, if it was one. */
  readonly loop: string | undefined;
  readonly error: LoggedError | undefined;
  readonly text: string;
}

export interface LoggedError {
  readonly name?: string;
  readonly message?: string;
  readonly code?: string;
  readonly cause?: LoggedError;
}

/** A fault that was injected, and when; without an end: during the whole run. */
export interface InjectedFault {
  readonly fault: Fault;
  readonly fromMs: number;
  readonly toMs: number;
  /** The replica it was injected on; undefined: all of them. */
  readonly slot: number | undefined;
}

const SEVERE = ['error', 'fatal'];
/** The line in which a process reports why it exits. */
const EXIT_LINE = /^sluice: (?:(\w*[Ee]rror): )?(.*)$/;
/** SQLSTATE of a client that cannot connect; the rest of the line depends on how it failed. */
const CANNOT_CONNECT = '08001';
/** A line on stderr has no SQLSTATE. */
const AWAY = /^(cannot reach PostgreSQL|terminating connection)/;

/** Undefined: not an error. A warning counts if it carries an error: something failed and is retried. */
export function loggedIn(text: string, slot: number, atMs: number): Logged | undefined {
  const line = parsed(text);
  if (!line) return undefined;
  const { level = '', event = '', loop, error } = line;
  if (!SEVERE.includes(level) && error === undefined) return undefined;
  return { slot, atMs, level, event, loop, error, text };
}

/** stderr carries only the reason why a process exits, and unexpected output; the lines of a stack belong to the line before. */
export function loggedOnStderr(text: string, slot: number, atMs: number): Logged | undefined {
  if (!/^\S/.test(text)) return undefined;
  const [, name = '', message = text] = EXIT_LINE.exec(text) ?? [];
  const away = AWAY.test(message) ? { code: CANNOT_CONNECT } : {};
  return {
    slot,
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
