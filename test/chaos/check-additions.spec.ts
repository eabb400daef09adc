import { describe, expect, it } from '@jest/globals';
import { checkDeliveries } from '../../chaos/check-deliveries.ts';
import { checkGroups } from '../../chaos/groups/check-groups.ts';
import type { CursorChange, EntryRow } from '../../chaos/groups/group-history.ts';
import type { History, MessageRow, Posted } from '../../chaos/history.ts';

const CREATED_MS = 1_000;

function message(position: number, id: string, parent?: string): MessageRow {
  const payload = parent === undefined ? {} : { parent };
  const row = { position, id, type: 'plain', key: id, lane: 1, payload, text: '{}', status: 'finished' };
  return { ...row, attempt: 1, error: null, superseded_by: null, archived: false };
}

function posted(id: string, postedMs: number, outcome: Posted['outcome'] = 'accepted'): Posted {
  return { id, type: 'plain', key: id, payload: '{}', scheduled: false, outcome, postedMs };
}

/** One before the creation was confirmed, one after it with a message that it sends, one without a response. */
const MESSAGES = [message(1, 'early'), message(2, 'late'), message(3, 'sent', 'late'), message(4, 'unknown')];
const POSTED = [posted('early', 900), posted('late', 1_100), posted('unknown', 1_200, 'unknown')];

const queue = {
  name: 'q',
  types: ['plain'],
  ordered: true,
  attempts: 3,
  maxInFlight: 5,
  sinceMs: CREATED_MS,
};

function deliveriesTo(...positions: readonly number[]): string[] {
  const deliveries = positions.map((n) => {
    const row = { position: n, id: `d${n}`, listener: 'q', message: n, key: `k${n}`, lane: 256, sequence: 1 };
    const state = { status: 'finished', attempt: 1, error: null, reopened: false, attemptsTotal: 0 };
    return { ...row, ...state };
  });
  const terms = { retriesMs: [], listeners: [], queues: [queue] };
  const history = { posted: POSTED, messages: MESSAGES, deliveries, arrivals: [], terms };
  return checkDeliveries(history as unknown as History).map(({ detail }) => detail);
}

function groupOf(entries: readonly EntryRow[], start: number): string[] {
  const place = { topic: 't', partition: 0 };
  const end = entries.length - 1;
  const state = { n: 1, group: 'g', owner: null, fence: 0, committed: start, handed: start };
  const changes: CursorChange[] = [
    { ...place, ...state, op: 'INSERT' },
    { ...place, ...state, n: 2, op: 'DELETE' },
    { ...place, ...state, n: 3, op: 'INSERT', committed: Math.max(start, end), handed: Math.max(start, end) },
  ];
  const topics = [{ name: 't', types: ['plain'], sinceMs: CREATED_MS }];
  const groups = [{ name: 'g', topics: ['t'], attempts: 3, sinceMs: CREATED_MS }];
  const tails = [{ ...place, earliest: 0, next: entries.length }];
  const recorded = { calls: [], ends: [], rejections: [], entries, changes, tails };
  const terms = { retriesMs: [], listeners: [], groups: { topics, groups } };
  const history = { posted: POSTED, messages: MESSAGES, groups: recorded, terms };
  return checkGroups(history).map(({ detail }) => detail);
}

const entries = (...positions: readonly number[]): EntryRow[] =>
  positions.map((position, offset) => ({ topic: 't', partition: 0, offset, message: position }));

describe('what is created in the middle of a run', () => {
  it('as a queue gets every message that is posted after that, and what such a message sends; earlier ones may be in it', () => {
    expect(deliveriesTo(2, 3)).toEqual([]);
    expect(deliveriesTo(1, 2, 3, 4)).toEqual([]);
    expect(deliveriesTo(3)).toEqual(['late is finished and has 0 deliveries to q']);
    expect(deliveriesTo(2)).toEqual(['sent is finished and has 0 deliveries to q']);
    expect(deliveriesTo(1, 1, 2, 3)).toEqual(['early is finished and has 2 deliveries to q']);
  });

  it('as a topic gets the same', () => {
    expect(groupOf(entries(2, 3), -1)).toEqual([]);
    expect(groupOf(entries(1, 2, 3, 4), -1)).toEqual([]);
    expect(groupOf(entries(1, 3), -1)).toEqual(['late is finished and is 0 times in t']);
    expect(groupOf(entries(1, 2), -1)).toEqual(['sent is finished and is 0 times in t']);
  });

  it('as a group starts ahead of every message that is posted after that', () => {
    expect(groupOf(entries(1, 2, 3), 0)).toEqual([]);
    expect(groupOf(entries(1, 2, 3), 1)).toEqual(['g starts t/0 after 1, and late is at 1']);
  });
});
