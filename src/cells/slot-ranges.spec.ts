import { expect, it } from '@jest/globals';
import { rangesOf } from './slot-ranges.ts';

it('slots are shown as ranges', () => {
  expect(rangesOf([])).toBe('');
  expect(rangesOf([7])).toBe('7');
  expect(rangesOf([0, 1, 2, 3, 7, 9, 10])).toBe('0-3,7,9-10');
});
