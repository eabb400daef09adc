import { describe, expect, it } from '@jest/globals';
import { Reject, Retry } from '../errors.ts';
import { bodyOf, type Verdict } from './settler.ts';
import { verdictOf } from './verdict-of.ts';

describe('what becomes of a message of a queue', () => {
  it('follows from what its handler threw', () => {
    const of = (cause: unknown) => verdictOf({ cause });
    expect(verdictOf(undefined)).toEqual({ verdict: { kind: 'acknowledge' } });
    expect(of(new Reject('blocked'))).toEqual({ verdict: { kind: 'reject', reason: 'blocked' } });
    expect(of(new Retry('1.5s', 'busy'))).toEqual({
      verdict: { kind: 'retry', after: '1500ms', reason: 'busy' },
    });
    expect(of(new Error('no connection'))).toEqual({
      verdict: { kind: 'retry', reason: 'Error: no connection' },
    });
    expect(of(undefined)).toEqual({ verdict: { kind: 'retry', reason: 'undefined' } });
  });

  it.each(['NaNs', '-1s', Number.NaN, -1, '31d', '', undefined, null] as never[])(
    'follows from the schedule if a Retry says %j',
    (after) => {
      expect(verdictOf({ cause: new Retry(after, 'busy') })).toEqual({
        verdict: { kind: 'retry', reason: 'busy' },
        fault: expect.stringContaining('the time of a Retry must be'),
      });
    },
  );

  it.each([[Object.create(null)], [Symbol('no')], [new Reject(42 as never)]])(
    'has a reason, whatever is thrown',
    (thrown) => {
      expect(verdictOf({ cause: thrown })).toMatchObject({ verdict: { reason: expect.any(String) } });
    },
  );

  it('is sent in one request, each kind in its list', () => {
    const verdicts: [string, Verdict][] = [
      ['a', { kind: 'acknowledge' }],
      ['b', { kind: 'retry', after: '5ms', reason: 'busy' }],
      ['c', { kind: 'reject', reason: 'blocked' }],
      ['d', { kind: 'extend', by: '30s' }],
      ['e', { kind: 'acknowledge' }],
    ];
    expect(bodyOf(new Map(verdicts))).toEqual({
      acknowledge: ['a', 'e'],
      retry: [{ lease: 'b', after: '5ms', reason: 'busy' }],
      reject: [{ lease: 'c', reason: 'blocked' }],
      extend: [{ lease: 'd', by: '30s' }],
    });
  });
});
