import { describe, expect, it } from '@jest/globals';
import { checkLogs } from '../../chaos/check-logs.ts';
import { type InjectedFault, type Logged, loggedIn, loggedOnStderr } from '../../chaos/logged.ts';
import { FAULTS, type Fault } from '../../chaos/schedule.ts';

describe('an error that a replica logs', () => {
  const AT = 1_000_000;
  const line = (fields: object, slot = 0): Logged =>
    loggedIn(JSON.stringify({ level: 'error', event: 'loop.failed', loop: 'outbox', ...fields }), slot, AT)!;
  const failed = (error: object, slot = 0) =>
    line({ error: { name: 'error', message: 'm', ...error } }, slot);
  const cut = { name: 'Error', message: 'Connection terminated unexpectedly' };
  const injectedFault = (fault: Fault, more: Partial<InjectedFault> = {}): InjectedFault => ({
    fault,
    fromMs: AT - 5_000,
    toMs: AT - 1_000,
    slot: undefined,
    ...more,
  });
  const isViolation = (logged: Logged, ...injected: readonly InjectedFault[]) =>
    checkLogs({ logged: [logged], injected, terms: { retriesMs: [], listeners: [] } }).length > 0;
  const ALL = (Object.keys(FAULTS) as Fault[]).map((fault) => injectedFault(fault));

  it.each<[what: string, logged: Logged]>([
    ['a NaN as a LIMIT', failed({ code: '22P02', message: 'invalid input syntax for type bigint: "…"' })],
    ['a wrong statement', failed({ code: '42601' })],
    ['a TypeError', failed({ name: 'TypeError', message: 'x is undefined' })],
    ['a share of no lanes', failed({ name: 'RangeError', message: 'a claim needs a positive whole number' })],
    ['an error without a reason', line({})],
    [
      'a warning because of a wrong statement',
      line({ level: 'warn', event: 'outbox.claim-failed', error: { code: '22P02' } }),
    ],
    ['an error of Node on stderr', loggedOnStderr('TypeError: x is undefined', 0, AT)!],
  ])('is a violation, whatever was injected: %s', (_what, logged) => {
    expect(isViolation(logged, ...ALL)).toBe(true);
  });

  it.each<[Fault, Logged]>([
    ['postgres-fast', failed({ code: '57P01' })],
    ['postgres-immediate', failed({ code: 'ECONNREFUSED' })],
    ['disk-full', failed({ code: '53100' })],
    ['backends', failed(cut)],
    ['disk-full', failed({ message: 'the migrations could not begin', cause: { code: '53100' } })],
    ['black-hole', failed({ message: 'Query read timeout' })],
    ['freeze', failed({ code: '57014' })],
    ['poison', line({ level: 'warn', event: 'inbox.retry', error: { message: 'failed as planned' } })],
    ['poison', line({ event: 'inbox.abandoned', loop: undefined, error: cut })],
    ['poison', line({ loop: 'inbox-2', error: cut })],
    ['receivers', line({ event: 'outbox.dead' })],
    ['outage', line({ event: 'outbox.circuit-opened' })],
    ['postgres-fast', loggedOnStderr('sluice: Error: timeout exceeded when trying to connect', 0, AT)!],
    [
      'failover',
      loggedOnStderr('sluice: error: terminating connection due to unexpected postmaster exit', 0, AT)!,
    ],
    [
      'postgres-fast',
      loggedOnStderr(
        'sluice: cannot reach PostgreSQL at 127.0.0.1:5432 (timeout expired); check DATABASE_URL',
        0,
        AT,
      )!,
    ],
    [
      'failover',
      loggedOnStderr(
        'sluice: QueryFailedError: terminating connection due to unexpected postmaster exit',
        0,
        AT,
      )!,
    ],
  ])('is explained by %s, during it and for a grace period after, and not without it', (fault, logged) => {
    expect(isViolation(logged, injectedFault(fault))).toBe(false);
    expect(isViolation(logged)).toBe(true);
    expect(isViolation(logged, injectedFault('skew'))).toBe(true);
    expect(isViolation(logged, injectedFault(fault, { fromMs: AT + 1 }))).toBe(true);
    expect(isViolation(logged, injectedFault(fault, { fromMs: 0, toMs: 1 }))).toBe(true);
  });

  it('is explained by a cut connection on the replica it was injected on, and on no other', () => {
    const there = injectedFault('cut-at-commit', { slot: 1 });
    expect([isViolation(failed(cut, 1), there), isViolation(failed(cut, 0), there)]).toEqual([false, true]);
  });

  it('of the outbox is not explained by a message that cuts the connection of the inbox', () => {
    expect(isViolation(failed(cut), injectedFault('poison'))).toBe(true);
  });

  it('is not a warning without an error, nor a banner, nor the stack of the line before', () => {
    const warning = JSON.stringify({ level: 'warn', event: 'outbox.lease-lost', lanes: [1] });
    expect([loggedIn(warning, 0, AT), loggedIn('Sluice is serving', 0, AT)]).toEqual([undefined, undefined]);
    expect(loggedOnStderr('    at somewhere', 0, AT)).toBeUndefined();
  });
});
