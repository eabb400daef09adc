import { describe, expect, it } from '@jest/globals';
import { type Settling, settlingOf, type Verdict } from './settling.ts';

type Terms = Parameters<typeof settlingOf>[2];

const TERMS: Terms = {
  retryScheduleMs: [1_000, 60_000],
  leaseMs: 30_000,
  rateLimit: undefined,
  onDead: 'skip',
};
const PER_KEY = { rateLimit: { perSecond: 10_000, burst: 1, perKey: { perSecond: 0.5 } } };
const RAN_OUT = 'the lease ran out; it may have been processed';

const decide = (verdict: Verdict, attempt: number, terms: Partial<Terms> = {}, random = 0): Settling =>
  settlingOf({ lane: 256, position: 1, attempt, token: 't' }, verdict, { ...TERMS, ...terms }, () => random);

const retry = (afterMs?: number, reason?: string): Verdict => ({ kind: 'retry', afterMs, reason });

describe('what is written for a lease', () => {
  it.each<[string, Settling, Partial<Settling>]>([
    ['an acknowledgement', decide({ kind: 'acknowledge' }, 1), { kind: 'finish', hold: undefined }],
    [
      'one of a key with a rate',
      decide({ kind: 'acknowledge' }, 1, PER_KEY),
      { kind: 'finish', hold: 'rate', ms: 2_000 },
    ],
    ['a retry, by the schedule', decide(retry(), 2), { kind: 'retry', hold: 'retry', ms: 60_000 }],
    ['a retry, up to a fifth later', decide(retry(), 1, {}, 1), { kind: 'retry', ms: 1_200 }],
    ['a retry when the consumer wants it', decide(retry(5, 'busy'), 1), { ms: 5, error: 'busy' }],
    ['a retry at once', decide(retry(0), 1), { kind: 'retry', ms: 0 }],
    ['a retry, but not before the key’s rate', decide(retry(5), 1, PER_KEY), { kind: 'retry', ms: 2_000 }],
    [
      'a retry after the last attempt',
      decide(retry(5, 'busy'), 3),
      { kind: 'dead', error: 'busy', hold: undefined },
    ],
    [
      'a rejection',
      decide({ kind: 'reject', reason: 'no' }, 1),
      { kind: 'dead', error: 'no', hold: undefined },
    ],
    [
      'a rejection that holds its key',
      decide({ kind: 'reject', reason: 'no' }, 1, { onDead: 'hold', ...PER_KEY }),
      { kind: 'dead', hold: 'dead-letter', ms: undefined },
    ],
    ['an extension', decide({ kind: 'extend', byMs: 5 }, 1), { kind: 'extend', ms: 5 }],
    [
      'an extension by the lease',
      decide({ kind: 'extend', byMs: undefined }, 1),
      { kind: 'extend', ms: 30_000 },
    ],
    ['a lease that ran out', decide({ kind: 'expired' }, 2), { kind: 'expire', late: true, error: RAN_OUT }],
    [
      'the last one that ran out',
      decide({ kind: 'expired' }, 3),
      { kind: 'dead', late: true, error: RAN_OUT },
    ],
    ['what nobody got', decide({ kind: 'returned' }, 3), { kind: 'return', late: false, hold: undefined }],
  ])('%s', (_, settling, expected) => {
    expect({ hold: undefined, ms: undefined, ...settling }).toMatchObject(expected);
  });
});
