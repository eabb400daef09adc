import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { Watermark } from './watermark.ts';

describe('the watermark of a partition', () => {
  it('is the last offset below which everything is finished, in whatever order messages finish', () => {
    const scenario = fc.uniqueArray(fc.nat({ max: 300 }), { minLength: 1, maxLength: 60 }).chain((offsets) =>
      fc.record({
        received: fc.constant(offsets.toSorted((a, b) => a - b)),
        finished: fc.shuffledSubarray(offsets),
      }),
    );
    fc.assert(
      fc.property(scenario, ({ received, finished }) => {
        const watermark = new Watermark(-1);
        for (const offset of received) watermark.receive(offset);
        const done = new Set<number>();
        for (const offset of finished) {
          const before = watermark.reached;
          const advanced = watermark.finish(offset);
          done.add(offset);
          const open = received.findIndex((one) => !done.has(one));
          const wanted = open === -1 ? received.at(-1)! : (received[open - 1] ?? -1);
          expect([watermark.reached, advanced]).toEqual([wanted, wanted > before]);
          expect(watermark.unfinished).toBe(received.length - done.size);
        }
      }),
      { seed: 20_261_118, numRuns: 500 },
    );
  });

  it('starts at what was committed before and takes further messages at any time', () => {
    const watermark = new Watermark(41);
    expect(watermark.reached).toBe(41);
    for (const offset of [42, 43]) watermark.receive(offset);
    expect(watermark.finish(43)).toBe(false);
    watermark.receive(50);
    expect(watermark.finish(42)).toBe(true);
    expect(watermark.reached).toBe(43);
    expect(watermark.finish(50)).toBe(true);
    expect([watermark.reached, watermark.unfinished]).toEqual([50, 0]);
  });

  it('finishes a whole range at once', () => {
    const watermark = new Watermark(-1);
    for (const offset of [0, 1, 2, 3]) watermark.receive(offset);
    expect([watermark.finishThrough(2), watermark.reached, watermark.unfinished]).toEqual([true, 2, 1]);
    expect(watermark.finishThrough(1)).toBe(false);
  });

  it('does not keep what is passed', () => {
    const watermark = new Watermark(-1);
    for (let offset = 0; offset < 20_000; offset++) {
      watermark.receive(offset);
      if (offset > 0) watermark.finish(offset - 1);
    }
    expect((watermark as unknown as { open: number[] }).open.length).toBeLessThan(5_000);
    expect([watermark.reached, watermark.unfinished]).toEqual([19_998, 1]);
  });
});
