import { describe, expect, it } from '@jest/globals';
import { type Pending, SendQueue } from './send-queue.ts';

const item = (id: string, length = 9, key?: string, path = '/'): Pending => ({
  id,
  key,
  path,
  text: 'x'.repeat(length),
  renumbered: 0,
  resolve: () => undefined,
  reject: () => undefined,
});
const idsOf = (items: readonly Pending[]) => items.map(({ id }) => id);

function queueOf(ids: string, maxMessages: number, maxLength: number): SendQueue {
  const queue = new SendQueue(maxMessages, maxLength);
  for (const id of ids) queue.add(item(id));
  return queue;
}

describe('the queue of sends', () => {
  it('gives batches of at most N messages, in order', () => {
    const queue = queueOf('abcde', 2, 1_000);
    expect([queue.take(), queue.take(), queue.take(), queue.take()].map(idsOf)).toEqual([
      ['a', 'b'],
      ['c', 'd'],
      ['e'],
      [],
    ]);
    expect(queue.isEmpty).toBe(true);
  });

  it('ends a batch at its length, but never leaves it empty', () => {
    const queue = queueOf('abc', 10, 25);
    queue.add(item('large', 500));
    queue.add(item('z'));
    expect([queue.take(), queue.take(), queue.take(), queue.take()].map(idsOf)).toEqual([
      ['a', 'b'],
      ['c'],
      ['large'],
      ['z'],
    ]);
  });

  it('gives batches of one path, and lets no message overtake another of its key', () => {
    const queue = new SendQueue(3, 1_000);
    for (const [id, key, path] of [
      ['a1', 'k', '/a'],
      ['b1', 'k', '/b'],
      ['a2', 'k', '/a'],
      ['a3', undefined, '/a'],
      ['b2', undefined, '/b'],
      ['a4', 'other', '/a'],
      ['a5', 'k', '/a'],
    ] as const)
      queue.add(item(id, 9, key, path));
    expect([queue.take(), queue.take(), queue.take(), queue.take()].map(idsOf)).toEqual([
      ['a1', 'a3', 'a4'],
      ['b1', 'b2'],
      ['a2', 'a5'],
      [],
    ]);
  });

  it('gives what was put back before anything else', () => {
    const queue = queueOf('abcd', 3, 1_000);
    const [, second, third] = queue.take();
    queue.putBack([second!, third!]);
    expect(idsOf(queue.take())).toEqual(['b', 'c', 'd']);
  });

  it('gives at most half of a batch that was too large', () => {
    const queue = queueOf('abcdefgh', 8, 1_000);
    const batch = queue.take();
    queue.shrink(batch);
    queue.putBack(batch);
    expect([queue.take(), queue.take()].map(idsOf)).toEqual([
      ['a', 'b', 'c', 'd'],
      ['e', 'f', 'g', 'h'],
    ]);
  });
});
