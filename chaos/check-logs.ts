import { isConflictOfTransactions, isDatabaseAway } from '../src/database/errors.ts';
import { PLANNED_FAILURE } from './chain.ts';
import type { History } from './history.ts';
import type { InjectedFault, Logged, LoggedError } from './logged.ts';
import type { Fault } from './schedule.ts';
import { type Violation, violation } from './violation.ts';

/** The kinds of errors in a replica that an injected fault can explain. */
type Kind = 'connection' | 'inbox-connection' | 'lock' | 'failed-attempt';

/**
 * How long after the end of a fault it still explains an error: a replica may be frozen at that time (for up to 5 s), and
 * notices the fault when a statement times out (`query_timeout`, 10 s).
 */
const GRACE_MS = 15_000;

/** The errors that a fault explains on the replica it is injected on (`there`) and on the others (`elsewhere`). */
const EXPLAINS: Readonly<
  Partial<Record<Fault, { readonly there: readonly Kind[]; readonly elsewhere: readonly Kind[] }>>
> = {
  'postgres-fast': everywhere('connection'),
  'postgres-immediate': everywhere('connection'),
  failover: everywhere('connection', 'lock'),
  'disk-full': everywhere('connection', 'lock'),
  backends: everywhere('connection'),
  // A message that terminates its own connection, or fails as planned.
  poison: everywhere('inbox-connection', 'failed-attempt'),
  'cut-at-commit': { there: ['connection'], elsewhere: [] },
  // The server terminates a transaction that is idle for 5 s; until then it keeps its locks.
  freeze: { there: ['connection', 'lock'], elsewhere: ['lock'] },
  'freeze-at-point': { there: ['connection', 'lock'], elsewhere: ['lock'] },
  'black-hole': { there: ['connection', 'lock'], elsewhere: ['lock'] },
  receivers: everywhere('failed-attempt'),
  outage: everywhere('failed-attempt'),
  kill: everywhere('failed-attempt'),
  'kill-at-point': everywhere('failed-attempt'),
};

function everywhere(...kinds: Kind[]) {
  return { there: kinds, elsewhere: kinds };
}

/** Every error that a replica logs, and every error it retries after, must be explained by an injected fault. */
export function checkLogs({
  logged,
  injected,
  terms: { queues = [] },
}: Pick<History, 'logged' | 'injected' | 'terms'>): Violation[] {
  const expected = ['"stage":"group"', ...queues.map(({ name }) => `"listener":"${name}"`)];
  return logged
    .filter((line) => !isAboutRejections(line, expected) && !isExplained(line, injected))
    .map(({ slot, text }) =>
      violation('no error without an injected cause', `replica ${slot}: ${text.slice(0, EXCERPT)}`),
    );
}

/** Consumers reject messages as planned, without any fault; the checks of groups and queues decide whether they should. */
function isAboutRejections({ event, text }: Logged, expected: readonly string[]): boolean {
  return event === 'alert.dead-letters' && expected.some((part) => text.includes(part));
}

function isExplained(line: Logged, injected: readonly InjectedFault[]): boolean {
  const kinds = kindsOf(line);
  return injected.some((one) => kinds.some((kind) => explains(one, kind, line)));
}

function explains({ fault, fromMs, toMs, slot }: InjectedFault, kind: Kind, line: Logged): boolean {
  if (line.atMs < fromMs || line.atMs > toMs + GRACE_MS) return false;
  const known = EXPLAINS[fault];
  const here = slot === undefined || slot === line.slot;
  return (here ? known?.there : known?.elsewhere)?.includes(kind) ?? false;
}

/** None: no fault explains it, such as a wrong statement (22P02, 42601) or a TypeError. */
function kindsOf({ event, loop = '', error }: Logged): readonly Kind[] {
  if (!error) return WITHOUT_ERROR[event] ?? [];
  if (isPlanned(error)) return ['failed-attempt'];
  const thrown = errorOf(error);
  if (isDatabaseAway(thrown))
    return /^inbox/.test(event) || /^inbox/.test(loop) ? ['connection', 'inbox-connection'] : ['connection'];
  return isConflictOfTransactions(thrown) || error.code === STATEMENT_TIMEOUT ? ['lock'] : [];
}

/** Events at error level that carry no error. Whether a dead letter is justified is decided by the other checks. */
const WITHOUT_ERROR: Readonly<Record<string, readonly Kind[]>> = {
  'alert.dead-letters': ['failed-attempt'],
  'outbox.dead': ['failed-attempt'],
  'outbox.circuit-opened': ['failed-attempt'],
  // The drain timeout exists for a database that is unavailable.
  'service.drain-timeout': ['connection'],
};

/** Enough of a line to recognize it. */
const EXCERPT = 800;
const STATEMENT_TIMEOUT = '57014';

/** Thrown by the read model of a fault run, or caused by a message that ended its process. */
function isPlanned({ name = '', message }: LoggedError): boolean {
  return message === PLANNED_FAILURE || ['Refuse', 'ReplicaDied'].includes(name);
}

function errorOf({ message = '', code, cause }: LoggedError): Error {
  return Object.assign(new Error(message), { code, cause: cause && errorOf(cause) });
}
