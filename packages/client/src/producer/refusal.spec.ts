import { describe, expect, it } from '@jest/globals';
import { SluiceError } from '../errors.ts';
import { refusedMessages } from './refusal.ts';

const refusal = (errors: { pointer: string; detail: string }[]) =>
  new SluiceError({
    type: 'urn:sluice:problems/invalid',
    title: 'Validation failed',
    detail: '…',
    status: 422,
    errors,
  });

describe('a refused batch', () => {
  it('gives each message that it names an error with pointers into that message', () => {
    const refused = refusedMessages(
      refusal([
        { pointer: '/messages/1/payload/n', detail: 'is inexact' },
        { pointer: '/messages/10', detail: 'is taken' },
        { pointer: '/messages/1/key', detail: 'is too long' },
      ]),
    );
    expect([...refused.keys()]).toEqual([1, 10]);
    expect(refused.get(1)).toMatchObject({
      status: 422,
      type: 'urn:sluice:problems/invalid',
      detail: '/payload/n is inexact; /key is too long',
      errors: [
        { pointer: '/payload/n', detail: 'is inexact' },
        { pointer: '/key', detail: 'is too long' },
      ],
    });
    expect(refused.get(10)!.detail).toBe('is taken');
  });

  it('names nobody when the request as a whole was refused', () => {
    expect(
      refusedMessages(refusal([{ pointer: '', detail: 'the header Producer-Id is not UTF-8' }])).size,
    ).toBe(0);
  });
});
