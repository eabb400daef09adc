import { describe, expect, it } from '@jest/globals';
import { Reject } from '../errors.ts';
import { decide } from './decide.ts';

describe('a message whose handler failed', () => {
  it('is retried after the times of the list, then rejected with the error as the reason', () => {
    const error = new Error('no connection');
    expect([1, 2, 3].map((tries) => decide(error, tries, [1_000, 5_000]))).toEqual([
      { kind: 'retry', afterMs: 1_000 },
      { kind: 'retry', afterMs: 5_000 },
      { kind: 'reject', reason: 'Error: no connection' },
    ]);
  });

  it('is rejected at once by a Reject', () => {
    expect(decide(new Reject('no such customer'), 1, [1_000])).toEqual({
      kind: 'reject',
      reason: 'no such customer',
    });
  });

  it('keeps a reason that the service accepts', () => {
    expect(decide(new Reject(''), 1, [])).toEqual({ kind: 'reject', reason: 'no reason given' });
    expect(decide(new Reject('x'.repeat(10_000)), 1, [])).toMatchObject({
      reason: expect.stringMatching(/^x{500}$/),
    });
    expect(decide(new Reject(`a\0b\ud800c${'😀'.repeat(248)}`), 1, [])).toEqual({
      kind: 'reject',
      reason: `a\ufffdb\ufffdc${'😀'.repeat(247)}\ufffd`,
    });
  });
});
