import { expect, it } from '@jest/globals';
import { rangesOf, slotsOf } from './slot-ranges.ts';

it('slots are shown as ranges', () => {
  expect(rangesOf([])).toBe('');
  expect(rangesOf([7])).toBe('7');
  expect(rangesOf([0, 1, 2, 3, 7, 9, 10])).toBe('0-3,7,9-10');
});

it('ranges are read as slots', () => {
  expect(slotsOf('7')).toEqual([7]);
  expect(slotsOf('9-10, 0-3,2')).toEqual([0, 1, 2, 3, 9, 10]);
  expect(slotsOf('255')).toEqual([255]);
});

it.each(['', '3-1', '256', '1-256', '-1', 'a', '1,,2', '1-2-3', '1.5'])('refuses %j', (ranges) => {
  expect(slotsOf(ranges)).toBeUndefined();
});
