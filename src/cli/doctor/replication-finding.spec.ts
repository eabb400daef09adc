import { describe, expect, it } from '@jest/globals';
import type { Replication } from '../../database/replication.ts';
import { replicationFinding } from './replication-finding.ts';

const QUORUM: Replication = {
  names: 'ANY 1 (b, c)',
  commits: 'on',
  synchronous: 2,
  potential: 0,
  asynchronous: 0,
  hidden: 0,
};

describe('the doctor, about the loss of the server', () => {
  it.each<[Partial<Replication>, string]>([
    [{}, 'a 202 survives it: commits wait for 1 of 2 standbys'],
    [{ commits: 'remote_apply' }, 'a 202 survives it: commits wait for 1 of 2 standbys'],
    [{ commits: 'remote_write' }, 'a 202 survives it, but not the power of both (remote_write): commits'],
    [{ names: 'any 2(b, c, d)', synchronous: 3 }, 'a 202 survives it: commits wait for 2 of 3 standbys'],
    [{ names: 'b, c', synchronous: 1, potential: 1 }, 'a 202 survives it: commits wait for 1 of 2 standbys'],
  ])('is content with %j', (changed, found) => {
    const finding = replicationFinding({ ...QUORUM, ...changed });
    expect(finding.verdict).toBe('ok');
    expect(finding.found).toContain(found);
  });

  it.each<[Partial<Replication>, 'warning' | 'failed', string, string]>([
    [
      { names: '', synchronous: 0 },
      'warning',
      'a 202 does not survive it: commits wait for no standby',
      'set synchronous_standby_names',
    ],
    [
      { names: ' ', synchronous: 0, asynchronous: 2 },
      'warning',
      'a 202 does not survive it: commits wait for no standby; 2 asynchronous standbys may lack the last commits',
      'set synchronous_standby_names',
    ],
    [
      { commits: 'local' },
      'warning',
      'a 202 does not survive it: synchronous_commit is local',
      'set synchronous_commit = on',
    ],
    [
      { names: '*', synchronous: 0 },
      'failed',
      '0 of the 1 standbys that commits wait for are connected: posts end as 503',
      'start the standbys',
    ],
    [
      { names: 'FIRST 2 (b, c, d)', synchronous: 1 },
      'failed',
      '1 of the 2 standbys that commits wait for are connected: posts end as 503',
      'start the standbys',
    ],
    [
      { names: '2 (b, c)' },
      'warning',
      'a 202 survives it; without one of the 2 standbys all commits wait',
      "'ANY 2 (…)' with more than 2",
    ],
    [
      { synchronous: 0, hidden: 2 },
      'warning',
      'commits wait for 1 standbys, which this role may not see',
      'GRANT pg_read_all_stats',
    ],
  ])('reports %j as %s, and the next step', (changed, verdict, found, next) => {
    expect(replicationFinding({ ...QUORUM, ...changed })).toEqual({
      check: 'loss of the server',
      verdict,
      found,
      next: expect.stringContaining(next),
    });
  });
});
