import { isConflictOfTransactions, isDatabaseAway } from '../src/database/faults.ts';
import { PLANNED_FAILURE } from './chain.ts';
import type { History } from './history.ts';
import type { Injected, Logged, LoggedError } from './logged.ts';
import type { Fault } from './schedule.ts';
import { type Violation, violation } from './violation.ts';

/** What can go wrong in a replica because of something outside of it. */
type Kind = 'connection' | 'inbox-connection' | 'lock' | 'failed-attempt';

/**
 * After the end of a fault: a replica may be frozen just then (for up to 5 s), and finds out when a statement has had
 * its time (`query_timeout`, 10 s).
 */
const GRACE_MS = 15_000;

/** What a fault explains on the replica it falls on, and on the others. */
const EXPLAINS: Readonly<
  Partial<Record<Fault, { readonly there: readonly Kind[]; readonly elsewhere: readonly Kind[] }>>
> = {
  'postgres-fast': everywhere('connection'),
  'postgres-immediate': everywhere('connection'),
  failover: everywhere('connection', 'lock'),
  'disk-full': everywhere('connection', 'lock'),
  backends: everywhere('connection'),
  // A message that ends its own connection, or fails as planned.
  poison: everywhere('inbox-connection', 'failed-attempt'),
  'cut-at-commit': { there: ['connection'], elsewhere: [] },
  // The server ends a transaction that does nothing for 5 s; until then it keeps its locks.
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

/** Whatever a replica logs as an error, or tries again because of one, has a cause among the faults injected. */
export function checkLogs({ logged, injected }: Pick<History, 'logged' | 'injected'>): Violation[] {
  return logged
    .filter((line) => !isExplained(line, injected))
    .map(({ place, text }) =>
      violation('no error without an injected cause', `replica ${place}: ${text.slice(0, EXCERPT)}`),
    );
}

function isExplained(line: Logged, injected: readonly Injected[]): boolean {
  const kinds = kindsOf(line);
  return injected.some((one) => kinds.some((kind) => explains(one, kind, line)));
}

function explains({ fault, fromMs, toMs, place }: Injected, kind: Kind, line: Logged): boolean {
  if (line.atMs < fromMs || line.atMs > toMs + GRACE_MS) return false;
  const known = EXPLAINS[fault];
  const here = place === undefined || place === line.place;
  return (here ? known?.there : known?.elsewhere)?.includes(kind) ?? false;
}

/** None: nothing outside explains it, such as a statement that is wrong (22P02, 42601) or a TypeError. */
function kindsOf({ event, loop = '', error }: Logged): readonly Kind[] {
  if (!error) return WITHOUT_ERROR[event] ?? [];
  if (isPlanned(error)) return ['failed-attempt'];
  const thrown = errorOf(error);
  if (isDatabaseAway(thrown))
    return /^inbox/.test(event) || /^inbox/.test(loop) ? ['connection', 'inbox-connection'] : ['connection'];
  return isConflictOfTransactions(thrown) || error.code === STATEMENT_TIMEOUT ? ['lock'] : [];
}

/** Of events that are errors by themselves. Whether a dead letter is one rightly is for the other checks. */
const WITHOUT_ERROR: Readonly<Record<string, readonly Kind[]>> = {
  'alert.dead-letters': ['failed-attempt'],
  'outbox.dead': ['failed-attempt'],
  'outbox.circuit-opened': ['failed-attempt'],
  // Its limit is for a database that is away.
  'service.drain-timeout': ['connection'],
};

/** Enough of a line to know what it was. */
const EXCERPT = 800;
const STATEMENT_TIMEOUT = '57014';

/** As the read model of a fault run throws it, or because that ended its process. */
function isPlanned({ name = '', message }: LoggedError): boolean {
  return message === PLANNED_FAILURE || ['Refuse', 'ReplicaDied'].includes(name);
}

function errorOf({ message = '', code }: LoggedError): Error {
  return Object.assign(new Error(message), { code });
}
