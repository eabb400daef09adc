import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { CrashKind } from '../support/crashing-read-model.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { startReplicaProcess } from '../support/replicas.ts';
import { until } from '../support/until.ts';

const LEASE_MS = 500;

let database: TestDatabase;

beforeAll(async () => {
  database = await createDatabase();
});
afterAll(() => database.drop());

function startReplica() {
  return startReplicaProcess({
    databaseUrl: database.url,
    settings: {
      ...{ ROLES: 'inbox', INBOX_POLL: '20ms', INBOX_RETRY_SCHEDULE: '1ms', WATCHDOG_TIMEOUT: '3s' },
      SECRETS_KEYS: `k1=${'A'.repeat(43)}=`,
    },
    overrides: { inboxLease: LEASE_MS },
    readModel: 'crashing-read-model',
  });
}

/** Restarts a replica whenever it exits, as an orchestrator does; returns how they exited. */
async function superviseUntil(done: () => Promise<boolean>): Promise<(number | string)[]> {
  const ends: (number | string)[] = [];
  let isDone = false;
  while (!isDone) {
    const replica = startReplica();
    const ended = replica.ended.then((how) => ends.push(how));
    isDone = await Promise.race([ended.then(() => false), until(done, 60_000)]);
    if (!isDone) continue;
    replica.signal('SIGTERM');
    await ended;
  }
  return ends.slice(0, -1);
}

describe('a message that crashes its process', () => {
  it.each<[CrashKind, number | string]>([
    ['exit', 7],
    ['kill', 'SIGKILL'],
    ['loop', 'SIGKILL'],
  ])('becomes a dead letter, and none of those claimed with it does (%s)', async (way, how) => {
    // Messages around it, in its lane and in others, all in one claim.
    await database.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload)
       SELECT $1 || '-' || n, 's', 'crashing', $1 || '-' || n, n % 3,
              CASE WHEN n = 4 THEN json_build_object('way', $1::text) ELSE '{}' END
       FROM generate_series(1, 9) AS n`,
      [way],
    );
    const open = `SELECT FROM inbox WHERE settled_at IS NULL`;
    const ends = await superviseUntil(async () => (await database.query(open)).length === 0);
    expect(new Set(ends)).toEqual(new Set([how]));
    const rows = await database.query<{ id: string; status: string; attempt: number; error: string }>(
      'SELECT id, status, attempt, error FROM inbox WHERE id LIKE $1',
      [`${way}-%`],
    );
    expect(rows.filter(({ status }) => status !== 'finished')).toEqual([
      {
        ...{ id: `${way}-4`, status: 'dead', attempt: 2 },
        error: 'Refuse: its replica died at its last attempt (2)',
      },
    ]);
    const finished = rows.filter(({ status }) => status === 'finished');
    expect(finished.map(({ attempt }) => attempt)).toEqual(Array(8).fill(1));
  });
});
