import { expect, it } from '@jest/globals';
import type { ReplayMessage } from './lane-source.ts';
import { type Page, partsOf } from './page.ts';

const row = (lane: number, position: number) => ({ lane, applied: 1, position }) as ReplayMessage;
const start = (...lanes: number[]) => lanes.map((lane) => ({ lane, applied: 0, position: 0 }));
const shown = (pages: Page[]) =>
  pages.map(({ from, rows }) => [
    from.map(({ lane, position }) => `${lane}>${position}`).join(),
    rows.map(({ position }) => position).join(),
  ]);

it('tries halves by lane, then halves of a lane that continue each other, so no message is passed over', () => {
  const page = { from: start(1, 2), rows: [row(1, 10), row(1, 11), row(2, 12), row(2, 13)] };
  const byLane = partsOf(page, []);
  expect(shown(byLane)).toEqual([
    ['1>0', '10,11'],
    ['2>0', '12,13'],
  ]);
  expect(shown(partsOf(byLane[0]!, []))).toEqual([
    ['1>0', '10'],
    ['1>10', '11'],
  ]);
});

it('applies the other lanes, what comes before a message that is known to fail, that one alone, then the rest', () => {
  const rows = [row(1, 10), row(1, 11), row(1, 12), row(2, 13)];
  const [others, lane, ...none] = partsOf({ from: start(1, 2), rows }, [rows[1]!]);
  expect([none, shown([others!, lane!])]).toEqual([
    [],
    [
      ['2>0', '13'],
      ['1>0', '10,11,12'],
    ],
  ]);
  expect(shown(partsOf(lane!, [rows[1]!]))).toEqual([
    ['1>0', '10'],
    ['1>10', '11'],
    ['1>11', '12'],
  ]);
  expect(shown(partsOf({ from: start(1), rows: rows.slice(1, 2) }, [rows[1]!]))).toEqual([['1>0', '11']]);
});
