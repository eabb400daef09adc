import { describe, expect, it } from '@jest/globals';
import { Reject, Retry } from '../errors.ts';
import { bodyOf, type Verdict } from './settler.ts';
import { verdictOf } from './verdict-of.ts';

describe('what becomes of a message of a queue', () => {
  it('follows from what its handler threw', () => {
    expect(verdictOf(undefined)).toEqual({ kind: 'acknowledge' });
    expect(verdictOf({ cause: new Reject('blocked') })).toEqual({ kind: 'reject', reason: 'blocked' });
    expect(verdictOf({ cause: new Retry('1.5s', 'busy') })).toEqual({
      kind: 'retry',
      after: '1500ms',
      reason: 'busy',
    });
    expect(verdictOf({ cause: new Error('no connection') })).toEqual({
      kind: 'retry',
      reason: 'Error: no connection',
    });
    expect(verdictOf({ cause: undefined })).toEqual({ kind: 'retry', reason: 'undefined' });
  });

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
