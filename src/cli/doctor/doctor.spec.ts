import { describe, expect, it } from '@jest/globals';
import { clockFinding } from './clock-finding.ts';
import { findingsOf, type Look } from './database-checks.ts';
import { checkSettings } from './settings-checks.ts';

const NOW_MS = Date.UTC(2026, 0, 1);
const WELL: Look = {
  version: '18.4',
  major: 18,
  durability: 'on',
  encoding: 'UTF8',
  fsync: 'on',
  full_page_writes: 'on',
  read_only: 'off',
  autovacuum: 'on',
  isolation: 'read committed',
  most_connections: 100,
  connections: 20,
  longest_transaction: 1,
  slots_behind: '0',
  now_ms: NOW_MS,
};

/** What is not well. */
const told = (look: Partial<Look>) =>
  findingsOf({ ...WELL, ...look }, NOW_MS)
    .filter(({ verdict }) => verdict !== 'ok')
    .map(({ check, verdict, found, next }) => [check, verdict, found, next !== undefined]);

describe('the doctor, about a database', () => {
  it('finds nothing where all is well', () => {
    expect(told({})).toEqual([]);
    expect(told({ longest_transaction: null })).toEqual([]);
  });

  it.each<[Partial<Look>, string, string, string]>([
    [{ fsync: 'off' }, 'durability', 'fault', 'fsync is off'],
    [{ full_page_writes: 'off' }, 'durability', 'fault', 'full_page_writes is off'],
    [{ read_only: 'on' }, 'durability', 'fault', 'it is a standby, or read-only'],
    [{ autovacuum: 'off' }, 'autovacuum', 'fault', 'off'],
    [{ isolation: 'serializable' }, 'isolation', 'warning', 'default is serializable'],
    [{ connections: 91 }, 'connections', 'warning', '91 of 100'],
    [{ longest_transaction: 301 }, 'transactions', 'warning', 'one has been open for 301 s'],
    [{ slots_behind: '2' }, 'replication slots', 'warning', '2 nobody reads'],
    [{ now_ms: NOW_MS + 3_000 }, 'clock of the database', 'warning', '3.0 s ahead of this machine'],
    [{ now_ms: NOW_MS - 61_000 }, 'clock of the database', 'fault', '61.0 s behind this machine'],
  ])('tells %j, and what to do about it', (look, check, verdict, found) => {
    expect(told(look)).toEqual([[check, verdict, found, true]]);
  });

  it.each<[Partial<Look>, RegExp]>([
    [{ major: 13, version: '13.9' }, /too old/],
    [{ durability: 'off' }, /synchronous_commit is off/],
    [{ encoding: 'SQL_ASCII' }, /encoding SQL_ASCII/],
  ])('tells what stops a start: %j', (look, found) => {
    expect(told(look)).toEqual([['database', 'fault', expect.stringMatching(found), false]]);
  });
});

describe('the doctor, about clocks', () => {
  it('takes the time that an answer needs for no difference', () => {
    expect(clockFinding('clock', 1_999).verdict).toBe('ok');
    expect(clockFinding('clock', -1_999).verdict).toBe('ok');
    expect(clockFinding('clock', -2_000).verdict).toBe('warning');
    expect(clockFinding('clock', 60_000).verdict).toBe('fault');
  });
});

describe('the doctor, about settings', () => {
  it.each([
    [{ EGRESS_ALLOW: '0.0.0.0/0+wide+metadata' }, 'EGRESS_ALLOW allows everything'],
    [
      { API_KEYS: 'a=produce[key=a]:sk_a_12345678,b=produce:sk_b_12345678', HOST: '127.0.0.1' },
      'API_KEYS binds some producers, but not b',
    ],
    [{ EGRESS_ALLOW: '169.254.0.0/16+metadata' }, 'EGRESS_ALLOW contains a metadata address'],
  ])('warns of %j', (environment, found) => {
    expect(checkSettings(environment)).toEqual([
      { check: 'settings', verdict: 'warning', found, next: expect.any(String) },
    ]);
  });

  it('is content with those that nobody set', () => {
    expect(checkSettings({})).toEqual([{ check: 'settings', verdict: 'ok', found: 'valid' }]);
  });
});
