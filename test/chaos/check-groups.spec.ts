import { describe, expect, it } from '@jest/globals';
import { checkGroups } from '../../chaos/groups/check-groups.ts';
import { isRejected } from '../../chaos/groups/consumer-rules.ts';
import type {
  ConsumerCall,
  CursorChange,
  GroupsHistory,
  ReceivedBatch,
  SentCommit,
} from '../../chaos/groups/group-history.ts';
import type { MessageRow } from '../../chaos/history.ts';
import type { Check } from '../../chaos/violation.ts';

const names = Array.from({ length: 1_000 }, (_, n) => `m${n}`);
/** At the offsets 0 to 3; the third one is rejected. */
const IDS = names.filter((id) => !isRejected(id)).slice(0, 4);
IDS[2] = names.find(isRejected)!;
const PLACE = { topic: 't', partition: 0 };

function message(offset: number, more: Partial<MessageRow> = {}): MessageRow {
  const row = { position: offset + 10, id: IDS[offset]!, type: 'plain', key: 'k', lane: 1, payload: {} };
  const state = { status: 'finished', attempt: 1, error: null, superseded_by: null, archived: false };
  return { ...row, text: '{}', ...state, ...more };
}

function entry(topic: string, offset: number, message: number) {
  return { topic, partition: 0, offset, message };
}

function cursor(n: number, more: Partial<CursorChange> = {}): CursorChange {
  const row = { ...PLACE, group: 'g', committed: -1, handed: -1, owner: null, fence: 0 };
  return { n, op: 'UPDATE', ...row, ...more };
}

function batch(fence: number, from: number, to: number): ReceivedBatch {
  const offsets = Array.from({ length: to - from + 1 }, (_, index) => from + index);
  return {
    ...{ ...PLACE, fence, from, to },
    messages: offsets.map((offset) => ({ offset, id: IDS[offset]!, attempt: 1 })),
  };
}

function call(member: string, atMs: number, more: Partial<ConsumerCall> = {}): ConsumerCall {
  const times = { sentMs: atMs, doneMs: atMs + 5, status: 200 };
  return { group: 'g', member, what: 'poll', ...times, commits: [], next: [], batches: [], ...more };
}

function commit(fence: number, offset: number, outcome: SentCommit['outcome'] = 'committed'): SentCommit {
  return { ...PLACE, fence, offset, rejected: [], outcome };
}

/** Member a gets two messages and dies; b gets all four, rejects one, commits and leaves. */
const GOOD: GroupsHistory = {
  calls: [
    call('a', 100, { batches: [batch(1, 0, 1)] }),
    call('b', 200, { batches: [batch(2, 0, 3)] }),
    call('b', 300, { what: 'commit', commits: [commit(2, 3)] }),
    call('b', 400, { what: 'leave', status: 204 }),
  ],
  changes: [
    cursor(1, { op: 'INSERT' }),
    cursor(2, { owner: 'a', fence: 1 }),
    cursor(3, { owner: 'a', fence: 1, handed: 1 }),
    cursor(5, { owner: 'b', fence: 2 }),
    cursor(6, { owner: 'b', fence: 2, handed: 3 }),
    cursor(7, { owner: 'b', fence: 2, handed: 3, committed: 3 }),
    cursor(9, { fence: 2, handed: 3, committed: 3 }),
  ],
  ends: [
    { n: 4, member: 'a', silentMs: 4_000, sessionMs: 3_000 },
    { n: 8, member: 'b', silentMs: 10, sessionMs: 3_000 },
  ],
  entries: [...IDS.map((_, offset) => entry('t', offset, offset + 10)), entry('g.dead', 0, 12)],
  tails: [
    { ...PLACE, earliest: 0, next: 4 },
    { topic: 'g.dead', partition: 0, earliest: 0, next: 1 },
  ],
  rejections: [{ ...PLACE, group: 'g', offset: 2, deadOffset: 0, reason: 'no', revivedOffset: null }],
};

const MESSAGES = IDS.map((_, offset) => message(offset));

function check(change: Partial<GroupsHistory> = {}, messages: readonly MessageRow[] = MESSAGES): Check[] {
  const groups = {
    topics: [{ name: 't', types: ['plain'] }],
    groups: [{ name: 'g', topics: ['t'], attempts: 3 }],
  };
  const terms = { retriesMs: [], listeners: [], groups };
  return checkGroups({ messages, posted: [], groups: { ...GOOD, ...change }, terms }).map((one) => one.check);
}

/** The good changes with other ones in place of some of their numbers. */
function changed(...others: readonly CursorChange[]): CursorChange[] {
  const numbers = new Set(others.map(({ n }) => n));
  return [...GOOD.changes.filter(({ n }) => !numbers.has(n)), ...others].sort((one, two) => one.n - two.n);
}

const EVERY = 'every group gets every message, and commits or rejects it';
const BATCHES = 'batches in offset order, without gaps';
const REBALANCE = 'nothing is skipped by a rebalance';
const OWNER = 'only the owner of a partition commits, with its fence';
const REASON = 'every repeat to a group has a reason';
const REVIVED = 'a dead letter starts over once for each revive';
const REJECTED = 'each rejected message is once in the dead letters of its group';
const CONTENTS = 'a topic has every finished message of its types once, in key order';

const PLANTED: readonly [Check, string, Partial<GroupsHistory>][] = [
  ['offsets of a partition are dense', 'a missing offset', { entries: GOOD.entries.slice(1) }],
  [
    'offsets of a partition are dense',
    'a tail beyond the entries',
    { tails: [{ ...GOOD.tails[0]!, next: 5 }] },
  ],
  [CONTENTS, 'a finished message without an entry', { entries: GOOD.entries.slice(1) }],
  [CONTENTS, 'a second entry of a message', { entries: [...GOOD.entries, entry('t', 4, 13)] }],
  [
    CONTENTS,
    'messages of a key in another order',
    { entries: [entry('t', 0, 11), entry('t', 1, 10), ...GOOD.entries.slice(2)] },
  ],
  [EVERY, 'a partition that was not committed to its end', { changes: GOOD.changes.slice(0, 5) }],
  [
    EVERY,
    'a committed message that no member got',
    { calls: [call('b', 1, { batches: [batch(2, 0, 2)] }), GOOD.calls[2]!] },
  ],
  [BATCHES, 'a gap', { calls: [call('b', 200, { batches: [batch(2, 1, 3)] }), ...GOOD.calls.slice(2)] }],
  [
    BATCHES,
    'a message that is missing in a batch',
    { calls: [call('b', 1, { batches: [withoutSecond()] })] },
  ],
  [
    BATCHES,
    'another message at an offset',
    { entries: GOOD.entries.map((one) => ({ ...one, message: 11 })) },
  ],
  [
    REBALANCE,
    'an owner that starts behind what a dead one had',
    { changes: changed(cursor(5, { owner: 'b', fence: 2, handed: 1 })) },
  ],
  [REBALANCE, 'a partition that is taken from a live owner', { ends: GOOD.ends.slice(1) }],
  [
    REBALANCE,
    'an offset that moves with the owner',
    { changes: changed(cursor(5, { owner: 'b', fence: 2, handed: 0, committed: 0 })) },
  ],
  ['committed offsets never go back', 'an offset that goes back', { changes: [...GOOD.changes, cursor(10)] }],
  [
    'committed offsets never go back',
    'a new cursor without a seek',
    {
      changes: [
        ...GOOD.changes,
        cursor(10, { op: 'DELETE', fence: 2, committed: 3 }),
        cursor(11, { op: 'INSERT' }),
      ],
    },
  ],
  [OWNER, 'an owner with the fence of another', { changes: changed(cursor(5, { owner: 'b', fence: 1 })) }],
  [
    OWNER,
    'a commit that the owner did not send',
    { calls: [...GOOD.calls.slice(0, 2), call('a', 300, { commits: [commit(1, 3)], status: 404 })] },
  ],
  [
    OWNER,
    'a commit with a lower fence after one with a higher',
    { calls: [...GOOD.calls, call('a', 500, { commits: [commit(1, 1, 'behind')] })] },
  ],
  [
    'a fenced commit changes nothing',
    'a fenced commit that is stored',
    { calls: [GOOD.calls[0]!, GOOD.calls[1]!, call('b', 300, { commits: [commit(2, 3, 'fenced')] })] },
  ],
  [
    REASON,
    'messages taken back from an owner that had asked for nothing',
    { changes: [...changed(cursor(4, { owner: 'a', fence: 1 }))] },
  ],
  [
    REASON,
    'a member that is dropped too early',
    { ends: [{ ...GOOD.ends[0]!, silentMs: 2_000 }, GOOD.ends[1]!] },
  ],
  [REASON, 'a batch that was handed out once and came twice', { calls: [GOOD.calls[0]!, ...GOOD.calls] }],
  [
    REJECTED,
    'a rejected message that is no dead letter',
    { rejections: [], entries: GOOD.entries.slice(0, 4) },
  ],
  [
    REJECTED,
    'a dead letter that nobody rejected',
    { rejections: [...GOOD.rejections, { ...GOOD.rejections[0]!, offset: 1, deadOffset: 1 }] },
  ],
  [REJECTED, 'a dead letter twice', { entries: [...GOOD.entries, entry('g.dead', 1, 12)] }],
  [
    REVIVED,
    'a revived dead letter that the group does not get',
    { rejections: [{ ...GOOD.rejections[0]!, revivedOffset: 0 }] },
  ],
  [
    REVIVED,
    'a revived message that nobody revived',
    { entries: [...GOOD.entries, entry('g.revived', 0, 12)] },
  ],
  [
    REJECTED,
    'a dead letter with another message',
    { entries: [...GOOD.entries.slice(0, 4), entry('g.dead', 0, 13)] },
  ],
];

function withoutSecond(): ReceivedBatch {
  const { messages, ...rest } = batch(2, 0, 3);
  return { ...rest, messages: messages.filter(({ offset }) => offset !== 1) };
}

describe('the checker of topics and groups', () => {
  it('finds no violation in a good history', () => {
    expect(check()).toEqual([]);
  });

  it.each(PLANTED)('"%s" detects %s', (name, _fault, change) => {
    expect(check(change)).toContain(name);
  });

  it('expects no entry of a message that is not finished', () => {
    expect(check({}, [message(0, { status: 'dead' }), ...MESSAGES.slice(1)])).toContain(CONTENTS);
  });

  it('accepts what a lost response explains: a gap, and messages that are taken back', () => {
    const next = [{ ...PLACE, fence: 2, next: 0 }];
    const calls = [
      GOOD.calls[0]!,
      call('b', 150, { status: undefined }),
      call('b', 160, { batches: [batch(2, 2, 3)] }),
      call('b', 170, { next, batches: [batch(2, 0, 3)] }),
      ...GOOD.calls.slice(2),
    ];
    const owned = { owner: 'b', fence: 2 };
    const changes = changed(
      cursor(6, { ...owned, handed: 1 }),
      cursor(6.1, { ...owned, handed: 3 }),
      cursor(6.2, owned),
      cursor(6.3, { ...owned, handed: 3 }),
    );
    expect(check({ calls, changes })).toEqual([]);
    expect(check({ calls: calls.filter(({ status }) => status !== undefined), changes })).toEqual([BATCHES]);
  });

  it('accepts a message that its consumers died with as a dead letter', () => {
    const rejections = [
      {
        ...PLACE,
        group: 'g',
        offset: 0,
        deadOffset: 1,
        reason: 'its consumer died 3 times',
        revivedOffset: null,
      },
    ];
    const moved = { committed: 0, handed: 0 };
    const change = {
      calls: [
        call('a', 100, { batches: [batch(1, 0, 0)] }),
        call('b', 200, { batches: [batch(2, 1, 3)] }),
        ...GOOD.calls.slice(2),
      ],
      changes: changed(
        cursor(3, { owner: 'a', fence: 1, handed: 0 }),
        cursor(5, { owner: 'b', fence: 2, ...moved }),
        cursor(6, { owner: 'b', fence: 2, ...moved, handed: 3 }),
      ),
      rejections: [...GOOD.rejections, ...rejections],
      entries: [...GOOD.entries, entry('g.dead', 1, 10)],
      tails: [GOOD.tails[0]!, { ...GOOD.tails[1]!, next: 2 }],
    };
    expect(check(change)).toEqual([]);
  });

  it('accepts a seek', () => {
    const sought = [
      cursor(10, { op: 'DELETE', fence: 2, handed: 3, committed: 3 }),
      cursor(11, { op: 'INSERT', fence: 3, handed: 0, committed: 0 }),
      cursor(12, { owner: 'c', fence: 4, handed: 0, committed: 0 }),
      cursor(13, { owner: 'c', fence: 4, handed: 3, committed: 0 }),
      cursor(14, { owner: 'c', fence: 4, handed: 3, committed: 3 }),
    ];
    const calls = [
      ...GOOD.calls,
      call('', 500, { what: 'seek' }),
      call('c', 600, { batches: [batch(4, 1, 3)] }),
      call('c', 700, { what: 'commit', commits: [commit(4, 3)] }),
    ];
    expect(check({ calls, changes: [...GOOD.changes, ...sought] })).toEqual([]);
  });
});
