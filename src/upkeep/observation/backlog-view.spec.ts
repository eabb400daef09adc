import { expect, it } from '@jest/globals';
import { findingsInBacklog } from '../attention/findings-in-backlog.ts';
import { backlogView } from './backlog-view.ts';
import type { Observed } from './observation-store.ts';

const AT = new Date('2026-11-19T05:00:00Z');

function row(name: string, value: number, more: Partial<Observed> = {}): Observed {
  return { name, value, stage: null, listener: null, group: null, topic: null, kind: null, ...more };
}

/** All that is observed of one listener and of one group. */
function ofListener(listener: string, ready: number): Observed[] {
  const outbox = { stage: 'outbox', listener };
  return [
    row('backlog', ready, { ...outbox, kind: 'ready' }),
    row('backlog', 2, { ...outbox, kind: 'held' }),
    row('backlog_oldest_age_seconds', 90, { ...outbox, kind: 'ready' }),
    row('dead_letters', 3, outbox),
    row('circuit_open', 1, { listener }),
    row('listener_paused', 1, { listener, kind: 'paused' }),
  ];
}

function ofGroup(group: string, lag: number): Observed[] {
  return [
    row('group_members', 1, { group }),
    row('group_lag_messages', lag, { group, topic: 'a' }),
    row('group_lag_messages', 1, { group, topic: 'b' }),
    row('group_lag_seconds', 70, { group }),
    row('dead_letters', 4, { group, stage: 'group' }),
  ];
}

const INBOX = [
  row('counted_up_to', 3_333),
  row('backlog', 5, { stage: 'inbox', kind: 'ready' }),
  row('backlog', 6, { stage: 'inbox', kind: 'scheduled' }),
  row('dead_letters', 7, { stage: 'inbox' }),
];

it('has what belongs to each listener and group, by name', () => {
  const deadOnly = row('dead_letters', 1, { stage: 'outbox', listener: 'only-dead' });
  const observed = [...ofListener('b', 10), ...ofGroup('y', 8), ...INBOX, ...ofListener('a', 20), deadOnly];
  const view = backlogView(AT, [...observed, ...ofGroup('x', 9)]);
  const listener = { state: 'paused', held: 2, oldestSeconds: 90, deadLetters: 3, circuitOpen: true };
  const group = { lagSeconds: 70, members: 1, unownedPartitions: 0, expired: 0, deadLetters: 4 };
  expect(view).toEqual({
    observedAt: AT,
    countedUpTo: 3_333,
    inbox: { ready: 5, held: 0, oldestSeconds: 0, deadLetters: 7, scheduled: 6 },
    listeners: [
      { name: 'a', ready: 20, ...listener },
      { name: 'b', ready: 10, ...listener },
    ],
    groups: [
      { name: 'x', lag: 10, ...group },
      { name: 'y', lag: 9, ...group },
    ],
  });
});

it('shows of a deleted listener what is left of it', () => {
  const left = row('backlog', 3, { stage: 'outbox', listener: 'gone', kind: 'deleted' });
  expect(backlogView(AT, [left]).listeners).toMatchObject([{ name: 'gone', state: 'deleted', ready: 3 }]);
});

it('goes through the rows a fixed number of times, however many listeners and groups there are', () => {
  const readsPerRow = (count: number) => {
    let reads = 0;
    const counted = (one: Observed): Observed =>
      new Proxy(one, {
        get: (target, name) => {
          reads += 1;
          return Reflect.get(target, name);
        },
      });
    const names = Array.from({ length: count }, (_, n) => `n-${n}`);
    const observed = names.flatMap((name) => [...ofListener(name, 1), ...ofGroup(name, 1)]).map(counted);
    backlogView(AT, observed);
    const found = findingsInBacklog(observed, AT, () => false);
    expect(found.filter(({ kind }) => kind === 'consumer-lag')).toHaveLength(count);
    return reads / observed.length;
  };
  expect(readsPerRow(400)).toBeCloseTo(readsPerRow(10), 0);
});
