import { expect, it } from '@jest/globals';
import { newMessage } from '../inbox/new-message.ts';
import { SLOTS, slotOf } from './slot-of.ts';

const KEYS = ['', 'c-1', 'c-2', 'ünï', 'a'.repeat(256)];

it('the slot of a key is frozen: another value would look for its rows in another database', () => {
  expect(KEYS.map(slotOf)).toEqual([11, 153, 217, 101, 238]);
});

it('the slot of a key is its lane in the inbox, which the fence of a cell compares', () => {
  for (const key of KEYS) {
    const { lane } = newMessage({ source: 's', type: 't', payload: Buffer.from('1'), key } as never);
    expect(lane).toBe(slotOf(key));
    expect(lane).toBeLessThan(SLOTS);
  }
});
