import { describe, expect, it } from '@jest/globals';
import type { DeliveryRow, History, MessageRow, Posted } from '../../chaos/history.ts';
import { checkQueues } from '../../chaos/queues/check-queues.ts';
import type {
  LeaseChange,
  PulledMessage,
  SentVerdict,
  VerdictKind,
  WorkerCall,
} from '../../chaos/queues/queue-history.ts';
import type { Check } from '../../chaos/violation.ts';

const LEASE_MS = 1_000;
const ATTEMPTS = 3;

/** The delivery of message n is at position 10 + n; all are of one key. */
function delivery(n: number, more: Partial<DeliveryRow> = {}): DeliveryRow {
  const row = { position: 10 + n, id: `d${n}`, listener: 'q', message: n, key: 'k', lane: 256, sequence: n };
  const state = { status: 'finished', attempt: 1, error: null, reopened: false, attemptsTotal: 0 };
  return { ...row, ...state, ...more };
}

function message(n: number): MessageRow {
  const row = { position: n, id: `m${n}`, type: 'plain', key: 'k', lane: 1, payload: {}, text: '{"a":1.0}' };
  return { ...row, status: 'finished', attempt: 1, error: null, superseded_by: null, archived: false };
}

function posted(n: number): Posted {
  const text = { payload: '{"a":1.0}', outcome: 'accepted', scheduled: false, postedMs: 0 } as const;
  return { id: `m${n}`, type: 'plain', key: 'k', ...text };
}

/** Handed out at `atMs`; the token names the hand-out. */
interface HandOut {
  readonly n: number;
  readonly attempt: number;
  readonly atMs: number;
}

const tokenOf = ({ n, attempt, atMs }: HandOut) => `t-${n}-${attempt}-${atMs}`;
const leaseOf = (one: HandOut) => `256.${10 + one.n}.${one.attempt}.${tokenOf(one)}`;

type Row = Omit<LeaseChange, 'n'>;

/** The delivery was charged with the attempt before, and nobody has settled it. */
function row(op: LeaseChange['op'], one: HandOut, atMs: number, more: Partial<Row> = {}): Row {
  return {
    ...{ op, position: 10 + one.n, attempt: one.attempt, token: tokenOf(one) },
    ...{ atMs, beganMs: atMs - 1, handedMs: one.atMs, expiresMs: one.atMs + LEASE_MS },
    ...{ status: 'pending', charged: one.attempt - 1, settledBy: null, ...more },
  };
}

const handedOut = (one: HandOut, more: Partial<Row> = {}) => row('INSERT', one, one.atMs, more);
const reopened = (n: number, atMs: number) => row('REOPEN', { n, attempt: 1, atMs }, atMs);
const byItself = (one: HandOut) => ({ charged: one.attempt, settledBy: tokenOf(one) });

/** Acknowledged, with the delivery settled by the same statement. */
function finished(one: HandOut, atMs: number, more: Partial<Row> = {}): Row[] {
  const state = { status: 'finished', ...byItself(one), ...more };
  return [row('DELETE', one, atMs, state), row('SETTLE', one, atMs, state)];
}

function endedAsDead(one: HandOut, atMs: number, more: Partial<Row> = {}): Row[] {
  const state = { status: 'dead', ...byItself(one), ...more };
  return [row('DELETE', one, atMs, state), row('SETTLE', one, atMs, state)];
}

const retried = (one: HandOut, atMs: number) =>
  row('DELETE', one, atMs, { status: 'held', ...byItself(one) });
const expired = (one: HandOut, atMs: number) => row('DELETE', one, atMs, { charged: one.attempt });
const returned = (one: HandOut, atMs: number) => row('DELETE', one, atMs);

function call(sentMs: number, more: Partial<WorkerCall>): WorkerCall {
  const times = { sentMs, doneMs: sentMs + 5, status: 200 };
  return { queue: 'q', worker: 'w', ...times, messages: [], verdicts: [], ...more };
}

function pulled(one: HandOut, more: Partial<PulledMessage> = {}): WorkerCall {
  const { n, attempt } = one;
  const text = { type: 'plain', key: 'k', payload: '{"a":1.0}' };
  const received = { lease: leaseOf(one), id: `m${n}`, sequence: n, attempt, ...text, ...more };
  return call(one.atMs, { messages: [received] });
}

function said(
  one: HandOut,
  sentMs: number,
  kind: VerdictKind,
  outcome: SentVerdict['outcome'],
  more: Partial<SentVerdict> = {},
): WorkerCall {
  return call(sentMs, { verdicts: [{ lease: leaseOf(one), kind, outcome, ...more }] });
}

/** Message 1 is retried and acknowledged; message 2 runs out, its late worker is fenced, and another acknowledges; 3 is rejected. */
const A1 = { n: 1, attempt: 1, atMs: 1_000 };
const A2 = { n: 1, attempt: 2, atMs: 1_500 };
const B1 = { n: 2, attempt: 1, atMs: 2_000 };
const B2 = { n: 2, attempt: 2, atMs: 3_100 };
const C1 = { n: 3, attempt: 1, atMs: 4_000 };

const LOG = {
  a1: [handedOut(A1), retried(A1, 1_100)],
  a2: [handedOut(A2), row('UPDATE', A2, 1_550, { expiresMs: 2_600 }), ...finished(A2, 1_600)],
  b1: [handedOut(B1), expired(B1, 3_050)],
  b2: [handedOut(B2), ...finished(B2, 3_200)],
  c1: [handedOut(C1), ...endedAsDead(C1, 4_100)],
};
const CALLS = {
  a1: [pulled(A1), said(A1, 1_090, 'retry', 'done', { afterMs: 300 })],
  a2: [pulled(A2), said(A2, 1_540, 'extend', 'done'), said(A2, 1_590, 'acknowledge', 'done')],
  b1: [pulled(B1)],
  b2: [pulled(B2), said(B1, 3_150, 'acknowledge', 'fenced'), said(B2, 3_190, 'acknowledge', 'done')],
  c1: [pulled(C1), said(C1, 4_090, 'reject', 'done')],
};
const DELIVERIES = [
  delivery(1, { attempt: 2 }),
  delivery(2, { attempt: 2 }),
  delivery(3, { status: 'dead' }),
];

interface Change {
  readonly log?: Partial<Record<keyof typeof LOG, readonly Row[]>>;
  readonly calls?: Partial<Record<keyof typeof CALLS, readonly WorkerCall[]>>;
  readonly deliveries?: readonly DeliveryRow[];
  readonly ordered?: boolean;
  readonly maxInFlight?: number;
  readonly injected?: History['injected'];
}

function check({ log, calls, ordered = true, maxInFlight = 5, ...change }: Change = {}): Check[] {
  const changes = Object.values({ ...LOG, ...log }).flat();
  const history = {
    deliveries: change.deliveries ?? DELIVERIES,
    messages: [1, 2, 3].map(message),
    posted: [1, 2, 3].map(posted),
    injected: change.injected ?? [],
    operations: { keys: new Set<string>() },
    queues: {
      calls: Object.values({ ...CALLS, ...calls }).flat(),
      changes: changes.map((one, index) => ({ ...one, n: index + 1 })),
    },
    terms: { queues: [{ name: 'q', types: ['plain'], ordered, attempts: ATTEMPTS, maxInFlight }] },
  };
  return checkQueues(history as unknown as History).map((one) => one.check);
}

const EVERY = 'every work queue hands out every message until it is settled';
const ONE = 'one lease per message at a time';
const ORDER = 'a work queue hands out a key one message at a time, in order';
const VALID = 'a valid lease settles a message, no other does';
const FENCED = 'a fenced lease changes nothing';
const REASON = 'every repeat from a work queue has a reason';

const PLANTED: readonly [Check, string, Change][] = [
  [EVERY, 'a finished message that nobody got', { calls: { b1: [], b2: [] } }],
  [EVERY, 'a finished message without an acknowledgement', { log: { b2: [handedOut(B2)] } }],
  [
    EVERY,
    'a dead letter that was not rejected',
    { deliveries: [DELIVERIES[0]!, DELIVERIES[1]!, delivery(3, { status: 'dead' })], log: { c1: [] } },
  ],
  [
    EVERY,
    'a dead letter after a lease that was not the last one',
    { log: { c1: [handedOut(C1), ...endedAsDead(C1, 5_100, { settledBy: null })] } },
  ],
  [
    ONE,
    'a message that two workers have',
    { log: { b1: [handedOut(B1), handedOut(B2)], b2: finished(B2, 3_200) } },
  ],
  [ONE, 'a lease that two workers got', { calls: { b2: [...CALLS.b2, pulled(B2)] } }],
  [
    ORDER,
    'a message while a worker has one of its key',
    { log: { a2: [handedOut(A2), ...LOG.b1], b1: finished(A2, 3_060) } },
  ],
  [ORDER, 'a message before the one ahead is settled', { log: { a1: [...LOG.a1, ...LOG.b1], b1: [] } }],
  [
    ORDER,
    'a number that is missing',
    { deliveries: [...DELIVERIES.slice(0, 2), delivery(3, { sequence: 4 })] },
  ],
  [
    ORDER,
    'a message that comes before the one ahead was acknowledged, as workers saw it',
    { calls: { a2: [CALLS.a2[0]!, CALLS.a2[1]!, said(A2, 2_500, 'acknowledge', 'done')] } },
  ],
  ['no more in flight than a work queue allows', 'one too many', { maxInFlight: 0 }],
  [
    VALID,
    'a message that was settled by an earlier lease',
    { log: { b2: [handedOut(B2), ...finished(B2, 3_200, byItself(B1))] } },
  ],
  [VALID, 'an acknowledgement that nobody sent', { calls: { b2: [pulled(B2)] } }],
  [
    VALID,
    'a rejection that was an acknowledgement',
    { calls: { c1: [pulled(C1), said(C1, 4_090, 'acknowledge', undefined)] } },
  ],
  [
    VALID,
    'an acknowledgement that is done and not recorded',
    { calls: { b1: [pulled(B1), said(B1, 2_500, 'acknowledge', 'done')] } },
  ],
  [
    VALID,
    'a valid lease that is fenced',
    { calls: { b1: [pulled(B1), said(B1, 2_500, 'acknowledge', 'fenced')] } },
  ],
  [
    VALID,
    'a lease that the service does not know',
    { calls: { b1: [pulled(B1), said(B1, 2_500, 'retry', 'unknown')] } },
  ],
  [VALID, 'an extension that nobody asked for', { calls: { a2: [CALLS.a2[0]!, CALLS.a2[2]!] } }],
  [
    FENCED,
    'a fenced acknowledgement that is stored',
    { calls: { b2: [pulled(B2), said(B2, 3_190, 'acknowledge', 'fenced')] } },
  ],
  [
    FENCED,
    'an acknowledgement after the lease has ended',
    { log: { b2: [handedOut(B2), ...finished(B2, 4_500)] } },
  ],
  [
    REASON,
    'a message that comes again after it was acknowledged',
    { log: { a1: [handedOut(A1), ...finished(A1, 1_100)] } },
  ],
  [REASON, 'a lease that was ended too early', { log: { b1: [handedOut(B1), expired(B1, 2_500)] } }],
  [
    REASON,
    'a message that was taken back although its worker has it',
    { log: { b1: [handedOut(B1), returned(B1, 2_500)] } },
  ],
  [REASON, 'an attempt that is not counted', { log: { a2: [handedOut(A1), ...finished(A1, 1_600)] } }],
  [REASON, 'a message that was not handed out', { calls: { b1: [pulled({ ...B1, attempt: 3 })] } }],
  [
    'no retry before its time',
    'a retry too soon',
    { calls: { a1: [pulled(A1), said(A1, 1_090, 'retry', 'done', { afterMs: 900 })] } },
  ],
  ['bytes as posted', 'another payload', { calls: { b1: [pulled(B1, { payload: '{"a":1}' })] } }],
  ['bytes as posted', 'another message', { calls: { b1: [pulled(B1, { id: 'm3' })] } }],
  [
    'delivery attempts within the maximum',
    'one attempt too many',
    { deliveries: [delivery(1, { attempt: 4 }), ...DELIVERIES.slice(1)] },
  ],
];

describe('the checker of work queues', () => {
  it('finds no violation in a good history', () => {
    expect(check()).toEqual([]);
  });

  it.each(PLANTED)('"%s" detects %s', (name, _fault, change) => {
    expect(check(change)).toContain(name);
  });

  it('lets a queue without order hand out messages of a key side by side', () => {
    const soon = { ...B1, atMs: 1_050 };
    const b1 = [handedOut(soon), retried(A1, 1_100), expired(soon, 2_060)];
    const log = { a1: [handedOut(A1), ...b1], b1: [] };
    const late = { ...A2, atMs: 3_400 };
    const a2 = [handedOut(late), ...finished(late, 3_600)];
    const calls = {
      a1: [pulled(A1), said(A1, 1_090, 'retry', 'done', { afterMs: 300 })],
      a2: [pulled(late), said(late, 3_590, 'acknowledge', 'done')],
      b1: [pulled(soon)],
      b2: [pulled(B2), said(B2, 3_190, 'acknowledge', 'done')],
    };
    expect(check({ ordered: false, log: { ...log, a2 }, calls })).toEqual([]);
    expect(check({ ordered: true, log: { ...log, a2 }, calls })).toContain(ORDER);
  });

  it('accepts what a lost response explains: an acknowledgement that is stored, a hand-out that is taken back', () => {
    const again = { ...B1, atMs: 2_300 };
    const log = { b1: [handedOut(B1), returned(B1, 2_200), handedOut(again), expired(again, 3_350)] };
    const b2 = [
      pulled(B2),
      said(B2, 3_180, 'acknowledge', undefined),
      said(B2, 3_190, 'acknowledge', 'done'),
    ];
    const after = { b2: [handedOut({ ...B2, atMs: 3_400 }), ...finished({ ...B2, atMs: 3_400 }, 3_450)] };
    const last = { ...B2, atMs: 3_400 };
    const calls = {
      b1: [call(B1.atMs, { status: undefined }), pulled(again)],
      b2: [pulled(last), said(last, 3_440, 'acknowledge', undefined)],
    };
    expect(check({ calls: { b2 } })).toEqual([]);
    expect(check({ log: { ...log, ...after }, calls })).toEqual([]);
  });

  it('accepts a message that was handed out for the last time as a dead letter, whatever its workers wanted', () => {
    const third = { n: 3, attempt: 3, atMs: 7_000 };
    const earlier = [1, 2].flatMap((attempt) => {
      const one = { n: 3, attempt, atMs: 4_000 + attempt * 1_100 };
      return [handedOut(one), expired(one, one.atMs + LEASE_MS + 10)];
    });
    const late = endedAsDead(third, 8_010, { settledBy: null });
    const deliveries = [...DELIVERIES.slice(0, 2), delivery(3, { status: 'dead', attempt: 3 })];
    expect(
      check({ deliveries, log: { c1: [...earlier, handedOut(third), ...late] }, calls: { c1: [] } }),
    ).toEqual([]);
    const asked = [pulled(third), said(third, 7_090, 'retry', 'done', { afterMs: 100 })];
    const c1 = [...earlier, handedOut(third), ...endedAsDead(third, 7_100)];
    expect(check({ deliveries, log: { c1 }, calls: { c1: asked } })).toEqual([]);
  });

  it('accepts a message again after a replay, also while later ones of its key were settled', () => {
    const again = { n: 1, attempt: 1, atMs: 5_000 };
    const c1 = [...LOG.c1, reopened(1, 4_500), handedOut(again), ...finished(again, 5_100)];
    const calls = { c1: [...CALLS.c1, pulled(again), said(again, 5_090, 'acknowledge', 'done')] };
    expect(check({ log: { c1 }, calls })).toEqual([]);
    expect(check({ log: { c1: c1.filter(({ op }) => op !== 'REOPEN') }, calls })).toContain(REASON);
  });

  it('accepts a hand-out that a server forgot because it crashed, but not that it was settled', () => {
    const crash = { fault: 'postgres-immediate', fromMs: 2_000, toMs: 2_900, slot: undefined } as const;
    const forgotten = { ...B1, atMs: 1_900, attempt: 2 };
    const calls = { b1: [pulled(forgotten), said(forgotten, 2_950, 'acknowledge', 'fenced'), pulled(B1)] };
    expect(check({ calls, injected: [crash] })).toEqual([]);
    expect(check({ calls })).toEqual([VALID, REASON]);
    const done = [pulled(forgotten), said(forgotten, 2_950, 'acknowledge', 'done'), pulled(B1)];
    expect(check({ calls: { b1: done }, injected: [crash] })).toEqual([VALID]);
  });
});
