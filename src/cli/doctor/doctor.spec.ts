import { describe, expect, it } from '@jest/globals';
import type { GroupDetails, GroupPartition } from '../groups.ts';
import { clockFinding } from './clock-finding.ts';
import { findingsOf, type ServerState } from './database-checks.ts';
import { findingsOfGroups, findingsOfTopics } from './group-checks.ts';
import { checkSettings } from './settings-checks.ts';

const NOW_MS = Date.UTC(2026, 0, 1);
const HEALTHY: ServerState = {
  version: '18.4',
  major: 18,
  durability: 'on',
  encoding: 'UTF8',
  fsync: 'on',
  full_page_writes: 'on',
  read_only: 'off',
  autovacuum: 'on',
  isolation: 'read committed',
  max_connections: 100,
  connections: 20,
  longest_transaction: 1,
  slots_behind: '0',
  now_ms: NOW_MS,
};

/** The findings that are not ok. */
const reported = (state: Partial<ServerState>) =>
  findingsOf({ ...HEALTHY, ...state }, NOW_MS)
    .filter(({ verdict }) => verdict !== 'ok')
    .map(({ check, verdict, found, next }) => [check, verdict, found, next !== undefined]);

describe('the doctor, about a database', () => {
  it('finds nothing wrong with a healthy server', () => {
    expect(reported({})).toEqual([]);
    expect(reported({ longest_transaction: null })).toEqual([]);
  });

  it.each<[Partial<ServerState>, string, string, string]>([
    [{ fsync: 'off' }, 'durability', 'failed', 'fsync is off'],
    [{ full_page_writes: 'off' }, 'durability', 'failed', 'full_page_writes is off'],
    [{ read_only: 'on' }, 'durability', 'failed', 'the server is a standby, or read-only'],
    [{ autovacuum: 'off' }, 'autovacuum', 'failed', 'off'],
    [{ isolation: 'serializable' }, 'isolation', 'warning', 'default is serializable'],
    [{ connections: 91 }, 'connections', 'warning', '91 of 100'],
    [{ longest_transaction: 301 }, 'transactions', 'warning', 'a transaction has been open for 301 s'],
    [{ slots_behind: '2' }, 'replication slots', 'warning', '2 inactive'],
    [{ now_ms: NOW_MS + 3_000 }, 'clock of the database', 'warning', '3.0 s ahead of this machine'],
    [{ now_ms: NOW_MS - 61_000 }, 'clock of the database', 'failed', '61.0 s behind this machine'],
  ])('reports %j, and the next step', (state, check, verdict, found) => {
    expect(reported(state)).toEqual([[check, verdict, found, true]]);
  });

  it.each<[Partial<ServerState>, RegExp]>([
    [{ major: 13, version: '13.9' }, /too old/],
    [{ durability: 'off' }, /synchronous_commit is off/],
    [{ encoding: 'SQL_ASCII' }, /encoding SQL_ASCII/],
  ])('reports what prevents a start: %j', (state, found) => {
    expect(reported(state)).toEqual([['database', 'failed', expect.stringMatching(found), false]]);
  });
});

const PARTITION: GroupPartition = {
  topic: 'orders',
  partition: 0,
  committed: 9,
  next: 10,
  lag: 0,
  lagSeconds: 0,
  expired: 0,
  member: 'm-1',
  state: 'owned',
  why: '',
};
const MEMBER = { member: 'm-1', name: 'worker', alive: true, seenAt: '', inFlight: 0, partitions: 2 };
const GROUP: GroupDetails = {
  name: 'billing',
  topics: ['orders'],
  lag: 0,
  lagSeconds: 0,
  session: '30s',
  members: [MEMBER],
  partitions: [PARTITION, { ...PARTITION, partition: 1 }],
};

describe('the doctor, about groups', () => {
  it('finds nothing wrong with groups whose members keep up', () => {
    expect(findingsOfGroups([])).toEqual([]);
    expect(findingsOfGroups([GROUP, { ...GROUP, members: [] }])).toEqual([
      { check: 'groups', verdict: 'ok', found: '2, none far behind' },
    ]);
  });

  it.each<[string, Partial<GroupDetails>, string, string]>([
    [
      'no members',
      { members: [], lag: 7, lagSeconds: 90 },
      'no members, 7 messages, 1m30s behind',
      'start its',
    ],
    [
      'members that died',
      { members: [MEMBER, ...['a', 'b', 'c', 'd'].map((name) => ({ ...MEMBER, name, alive: false }))] },
      'members died: a, b, c and 1 more',
      'handed out again',
    ],
    [
      'partitions without an owner',
      { partitions: [{ ...PARTITION, state: 'free', member: null }] },
      'partitions without an owner: orders/0',
      'sluice groups billing',
    ],
    [
      'partitions whose messages may kill',
      { partitions: [{ ...PARTITION, state: 'suspect' }] },
      'partitions whose messages may kill consumers: orders/0',
      'dead letter',
    ],
    [
      'messages that expired',
      { partitions: [{ ...PARTITION, expired: 2 }] },
      '2 messages were removed by retention before it read them',
      'longer retention',
    ],
    [
      'lag and room for members',
      { lag: 7, lagSeconds: 301 },
      '7 messages, 5m1s behind, with 1 of at most 2 members',
      'start more',
    ],
    [
      'lag and no room for members',
      { lag: 7, lagSeconds: 301, members: [MEMBER, MEMBER] },
      '7 messages, 5m1s behind, with 2 of at most 2 members',
      'more consumers than partitions do not help',
    ],
  ])('reports %s, and the next step', (_what, changed, found, next) => {
    expect(findingsOfGroups([{ ...GROUP, ...changed }])).toEqual([
      { check: 'group billing', verdict: 'warning', found, next: expect.stringContaining(next) },
    ]);
  });

  it('reports topics that keep messages and that no group reads', () => {
    const topic = { name: 'orders', kind: 'topic', types: [], retention: '7d' } as const;
    const kept = { ...topic, partitions: [{ partition: 0, earliest: 2, next: 10 }] };
    expect(findingsOfTopics([kept], new Set())).toMatchObject([
      { check: 'topic orders', found: 'no group reads it; 8 messages are kept for 7d each' },
    ]);
    expect(findingsOfTopics([kept], new Set(['orders']))).toEqual([]);
    expect(findingsOfTopics([{ ...kept, kind: 'dead' }], new Set())).toEqual([]);
    expect(
      findingsOfTopics([{ ...topic, partitions: [{ partition: 0, earliest: 9, next: 9 }] }], new Set()),
    ).toEqual([]);
  });
});

describe('the doctor, about clocks', () => {
  it('does not count the time of the request as a difference', () => {
    expect(clockFinding('clock', 1_999).verdict).toBe('ok');
    expect(clockFinding('clock', -1_999).verdict).toBe('ok');
    expect(clockFinding('clock', -2_000).verdict).toBe('warning');
    expect(clockFinding('clock', 60_000).verdict).toBe('failed');
  });
});

describe('the doctor, about settings', () => {
  it.each([
    [{ EGRESS_ALLOW: '0.0.0.0/0+wide+metadata' }, 'EGRESS_ALLOW allows everything'],
    [
      { API_KEYS: 'a=produce[key=a]:sk_a_12345678,b=produce:sk_b_12345678', HOST: '127.0.0.1' },
      'API_KEYS restricts some producers to sources or keys, but not b',
    ],
    [{ EGRESS_ALLOW: '169.254.0.0/16+metadata' }, 'EGRESS_ALLOW contains a metadata address'],
  ])('warns of %j', (environment, found) => {
    expect(checkSettings(environment)).toEqual([
      { check: 'settings', verdict: 'warning', found, next: expect.any(String) },
    ]);
  });

  it('finds nothing wrong with the defaults', () => {
    expect(checkSettings({})).toEqual([{ check: 'settings', verdict: 'ok', found: 'valid' }]);
  });
});
