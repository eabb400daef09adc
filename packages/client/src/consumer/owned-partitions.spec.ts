import { describe, expect, it } from '@jest/globals';
import type { SluiceEvent } from '../events.ts';
import { OwnedPartitions } from './owned-partitions.ts';
import type { Partition } from './partition.ts';
import type { Message, Owned, WireBatch } from './wire.ts';
import type { Work } from './work.ts';

const owned = (partition: number, fence = 1): Owned => ({ topic: 'orders', partition, fence, committed: -1 });
const batchOf = (place: Owned): WireBatch => ({
  ...place,
  from: 0,
  to: 0,
  messages: [
    {
      offset: 0,
      id: 'm',
      source: 's',
      type: 'orders',
      key: 'k',
      headers: {},
      timestamp: '2026-11-18T10:00:00Z',
      attempt: 1,
      payload: null,
    },
  ],
});

/** Finishes everything at once, or never. */
function open({ finishes = true, topics }: { finishes?: boolean; topics?: string[] } = {}) {
  const taken: Message[] = [];
  const dropped: Partition[] = [];
  const events: SluiceEvent[] = [];
  const work: Work = {
    overdue: undefined,
    begin: () => undefined,
    room: () => 1,
    take(partition, messages) {
      taken.push(...messages);
      if (finishes) partition.finishThrough(messages.at(-1)!.offset);
    },
    drop: (partition) => void dropped.push(partition),
    drain: () => Promise.resolve(),
    end: () => undefined,
  };
  const onEvent = (event: SluiceEvent) => void events.push(event);
  const partitions = new OwnedPartitions(work, { group: 'billing', topics, onEvent });
  const apply = (assigned: Owned[], draining: Owned[] = [], batches: WireBatch[] = []) =>
    partitions.apply({ assigned, draining, committed: [], batches });
  return { partitions, apply, taken, dropped, events };
}

describe('the partitions of a member', () => {
  it('are those of the last response; what is not in it is lost', () => {
    const { apply, dropped, events, partitions } = open({ finishes: false });
    apply([owned(0), owned(1)], [], [batchOf(owned(0)), batchOf(owned(1))]);
    apply([owned(0)], [owned(1)]);
    expect(dropped).toEqual([]);
    apply([owned(0)]);
    expect(dropped.map(({ name, isLost }) => [name, isLost])).toEqual([['orders/1', true]]);
    expect(events.map(({ event }) => event)).toEqual(['consumer.partition-lost']);
    apply([owned(0, 2)]);
    expect(dropped.map(({ fence }) => fence)).toEqual([1, 1]);
    expect(partitions.nextOffsets()).toEqual([{ topic: 'orders', partition: 0, fence: 2, next: 0 }]);
  });

  it('are handed over without a report when everything is committed', () => {
    const { apply, dropped, events, partitions } = open();
    apply([owned(0)], [], [batchOf(owned(0))]);
    const items = partitions.commits();
    partitions.settle(items, [{ topic: 'orders', partition: 0, outcome: 'committed' }]);
    apply([]);
    expect([dropped.length, events]).toEqual([1, []]);
  });

  it.each([
    ['committed', []],
    ['fenced', ['consumer.partition-lost']],
  ] as const)(
    'that are gone before their last commit is known to be %s are reported: %j',
    async (outcome, reported) => {
      const { apply, events, partitions } = open();
      apply([owned(0)], [], [batchOf(owned(0))]);
      await partitions.commit(partitions.commits(), async () => {
        apply([]);
        expect(events).toEqual([]);
        return [{ topic: 'orders', partition: 0, outcome }];
      });
      expect(events.map(({ event }) => event)).toEqual(reported);
    },
  );

  it('that are gone before their last commit failed are reported', async () => {
    const { apply, events, partitions } = open();
    apply([owned(0)], [], [batchOf(owned(0))]);
    const failed = partitions.commit(partitions.commits(), async () => {
      apply([]);
      throw new Error('no connection');
    });
    await expect(failed).rejects.toThrow('no connection');
    expect(events.map(({ event }) => event)).toEqual(['consumer.partition-lost']);
  });

  it('are lost when a commit is fenced', () => {
    const { apply, dropped, partitions } = open();
    const two = [owned(0), owned(1)];
    apply(two, [], two.map(batchOf));
    partitions.settle(partitions.commits(), [
      { topic: 'orders', partition: 0, outcome: 'fenced' },
      { topic: 'orders', partition: 1, outcome: 'behind' },
    ]);
    expect(dropped.map(({ name }) => name)).toEqual(['orders/0']);
    expect(partitions.commits()).toEqual([]);
  });

  it('take nothing of a partition that is not theirs', () => {
    const { apply, taken } = open();
    apply([owned(0)], [], [batchOf(owned(0, 9)), batchOf(owned(1))]);
    expect(taken).toEqual([]);
  });

  it('are named in turn when a request cannot name all of them', () => {
    const { apply, partitions } = open();
    const all = Array.from({ length: 1_201 }, (_, n) => owned(n));
    apply(all, [], all.map(batchOf));
    const named = new Set<number>();
    for (let poll = 0; poll < 3; poll++) {
      const next = partitions.nextOffsets();
      expect(next).toHaveLength(500);
      for (const { partition } of next) named.add(partition);
    }
    expect(named.size).toBe(1_201);
    for (const count of [500, 500, 201]) {
      const items = partitions.commits();
      expect(items).toHaveLength(count);
      partitions.settle(
        items,
        items.map(({ topic, partition }) => ({ topic, partition, outcome: 'committed' })),
      );
    }
  });

  it('are refused if the consumer does not know their topic, but for its revived dead letters', () => {
    const { apply } = open({ topics: ['orders'] });
    apply([owned(0), { ...owned(0), topic: 'billing.revived' }]);
    expect(() => apply([{ ...owned(0), topic: 'refunds' }])).toThrow(/reads the topic "refunds"/);
  });
});
