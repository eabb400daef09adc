import { beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { KeyChains } from './key-chains.ts';

interface Item {
  readonly key: string;
  readonly n: number;
}

let chains: KeyChains<Item>;

beforeEach(() => {
  chains = new KeyChains();
});

const add = (key: string, n: number) => chains.add(key, { key, n });

describe('chains of messages per key', () => {
  it('start one message of each key, and the next one when it is settled', () => {
    add('a', 1);
    add('a', 2);
    add('b', 1);
    expect([chains.next(), chains.next(), chains.next()]).toEqual([
      { key: 'a', n: 1 },
      { key: 'b', n: 1 },
      undefined,
    ]);
    chains.settle('a');
    expect([chains.next(), chains.next()]).toEqual([{ key: 'a', n: 2 }, undefined]);
    chains.settle('a');
    chains.settle('b');
    expect([chains.size, chains.next()]).toEqual([0, undefined]);
  });

  it('let keys take turns', () => {
    for (const n of [1, 2, 3]) add('a', n);
    for (const n of [1, 2]) add('b', n);
    const order: string[] = [];
    for (let item = chains.next(); item; item = chains.next()) {
      order.push(`${item.key}${item.n}`);
      chains.settle(item.key);
    }
    expect(order).toEqual(['a1', 'b1', 'a2', 'b2', 'a3']);
  });

  it('keep a parked key from starting until it is resumed, with the same message', () => {
    add('a', 1);
    add('b', 1);
    chains.next();
    chains.park('a');
    add('a', 2);
    expect([chains.parked, chains.size]).toEqual([2, 3]);
    expect([chains.next(), chains.next()]).toEqual([{ key: 'b', n: 1 }, undefined]);
    chains.resume('a');
    expect([chains.parked, chains.next()]).toEqual([0, { key: 'a', n: 1 }]);
    chains.settle('a');
    expect(chains.next()).toEqual({ key: 'a', n: 2 });
  });

  it('forget what is dropped, parked or started', () => {
    add('a', 1);
    add('b', 1);
    add('b', 2);
    add('c', 1);
    chains.next();
    expect(chains.next()).toEqual({ key: 'b', n: 1 });
    chains.park('b');
    chains.drop(({ key }) => key !== 'c');
    expect([chains.size, chains.parked]).toEqual([1, 0]);
    chains.settle('a');
    chains.resume('b');
    expect([chains.next(), chains.next(), chains.size]).toEqual([{ key: 'c', n: 1 }, undefined, 1]);
    add('a', 2);
    expect(chains.next()).toEqual({ key: 'a', n: 2 });
  });

  it('never start two messages of a key at once, nor out of order, whatever happens', () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('add' as const), key: fc.constantFrom('a', 'b', 'c') }),
      fc.record({
        do: fc.constantFrom('next' as const, 'settle' as const, 'park' as const, 'resume' as const),
      }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        chains = new KeyChains();
        const added: Record<string, number> = {};
        const settled: Record<string, number> = {};
        const [started, parked] = [new Map<string, Item>(), new Set<string>()];
        for (const one of steps) {
          if (one.do === 'add') {
            added[one.key] = (added[one.key] ?? 0) + 1;
            add(one.key, added[one.key]!);
          } else if (one.do === 'next') {
            const item = chains.next();
            if (!item) continue;
            expect([started.has(item.key), parked.has(item.key)]).toEqual([false, false]);
            expect(item.n).toBe((settled[item.key] ?? 0) + 1);
            started.set(item.key, item);
          } else if (one.do === 'resume') {
            for (const key of parked) chains.resume(key);
            parked.clear();
          } else {
            const [key] = started.keys();
            if (key === undefined) continue;
            started.delete(key);
            if (one.do === 'settle') settled[key] = (settled[key] ?? 0) + 1;
            else parked.add(key);
            chains[one.do](key);
          }
        }
        const open = ['a', 'b', 'c'].map((key) => (added[key] ?? 0) - (settled[key] ?? 0));
        expect(chains.size).toBe(open.reduce((a, b) => a + b));
      }),
      { seed: 20_261_119, numRuns: 500 },
    );
  });
});
