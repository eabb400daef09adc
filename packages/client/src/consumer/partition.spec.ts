import { describe, expect, it } from '@jest/globals';
import { Partition } from './partition.ts';
import type { WireBatch } from './wire.ts';

const NAME = { topic: 'orders', partition: 3, fence: 7 };
const open = (committed = -1) => new Partition({ ...NAME, committed });

function batch(from: number, to: number, more: Partial<WireBatch> = {}): WireBatch {
  const messages = Array.from({ length: to - from + 1 }, (_, n) => ({
    offset: from + n,
    id: `m-${from + n}`,
    source: 'urn:sluice:api-keys/shop',
    type: 'orders',
    key: 'k',
    headers: {},
    timestamp: '2026-11-18T10:00:00Z',
    attempt: 1,
    payload: n,
  }));
  return { ...NAME, from, to, messages, ...more };
}
const offsets = (messages: readonly { offset: number }[]) => messages.map(({ offset }) => offset);

describe('a partition of this member', () => {
  it('takes batches one after the other and commits what is finished without a hole', () => {
    const partition = open();
    expect(partition.receive(batch(0, 2))[0]).toMatchObject({ topic: 'orders', partition: 3, offset: 0 });
    expect([partition.next, partition.toCommit()]).toEqual([3, undefined]);
    partition.finish(2);
    partition.finish(0);
    const item = partition.toCommit()!;
    expect(item).toEqual({ ...NAME, offset: 0 });
    expect(partition.committed(item, 'committed')).toBe(true);
    expect(partition.toCommit()).toBeUndefined();
    partition.finish(1);
    expect([partition.toCommit(), partition.isFinished]).toEqual([{ ...NAME, offset: 2 }, true]);
  });

  it('uses nothing of a batch beyond the next offset: the response before it was lost', () => {
    const partition = open(9);
    expect(partition.receive(batch(15, 16))).toEqual([]);
    expect(partition.next).toBe(10);
    expect(offsets(partition.receive(batch(10, 16)))).toEqual([10, 11, 12, 13, 14, 15, 16]);
  });

  it('takes what is new of a batch that was handed out before', () => {
    const partition = open();
    partition.receive(batch(0, 4));
    expect(offsets(partition.receive(batch(2, 6)))).toEqual([5, 6]);
    expect(partition.receive(batch(0, 3))).toEqual([]);
    expect(partition.next).toBe(7);
  });

  it('goes on after offsets that were removed before they were handed out', () => {
    const partition = open(4);
    const fresh = partition.receive(batch(100, 101, { skipped: { from: 5, to: 99 } }));
    expect(offsets(fresh)).toEqual([100, 101]);
    partition.finishThrough(101);
    expect(partition.toCommit()).toEqual({ ...NAME, offset: 101 });
  });

  it('goes on after offsets that the service has passed over, and reports them once', () => {
    const partition = open(4);
    expect(partition.pass(4)).toBeUndefined();
    expect(partition.pass(99)).toEqual({ from: 5, to: 99 });
    expect([partition.pass(99), partition.next, partition.toCommit()]).toEqual([undefined, 100, undefined]);
    expect(offsets(partition.receive(batch(100, 101)))).toEqual([100, 101]);
    partition.finishThrough(101);
    expect(partition.toCommit()).toEqual({ ...NAME, offset: 101 });
  });

  it('sends a rejection with the commit that covers it, until that is confirmed', () => {
    const partition = open();
    partition.receive(batch(0, 2));
    partition.reject(1, 'no such customer');
    partition.finish(1);
    expect(partition.toCommit()).toBeUndefined();
    partition.finish(0);
    const item = { ...NAME, offset: 1, rejected: [{ offset: 1, reason: 'no such customer' }] };
    expect([partition.toCommit(), partition.toCommit()]).toEqual([item, item]);
    partition.finish(2);
    expect(partition.committed(item, 'behind')).toBe(true);
    expect(partition.toCommit()).toEqual({ ...NAME, offset: 2 });
  });

  it('commits no further than the rejections that fit into one commit', () => {
    const partition = open();
    partition.receive(batch(0, 1_199));
    for (let offset = 1; offset < 1_200; offset += 2) partition.reject(offset, 'no');
    partition.finishThrough(1_199);
    const first = partition.toCommit()!;
    expect([first.offset, first.rejected?.length, first.rejected?.at(-1)?.offset]).toEqual([1_000, 500, 999]);
    partition.committed(first, 'committed');
    const second = partition.toCommit()!;
    expect([second.offset, second.rejected?.length]).toEqual([1_199, 100]);
  });

  it('is lost when a commit is fenced or refused, and commits nothing more', () => {
    const partition = open();
    partition.receive(batch(0, 0));
    partition.finish(0);
    const item = partition.toCommit()!;
    expect(partition.committed(item, 'fenced')).toBe(false);
    expect(partition.committed(item, 'ahead')).toBe(false);
    let called = 0;
    const unfollow = partition.onLost(() => void called++);
    partition.onLost(() => void called++);
    unfollow();
    partition.lose();
    partition.lose();
    expect([called, partition.isLost, partition.toCommit()]).toEqual([1, true, undefined]);
  });
});
