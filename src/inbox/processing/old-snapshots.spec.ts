import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable, Module } from '@nestjs/common';
import pg from 'pg';
import { startApp } from '../../../test/support/app.ts';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { until } from '../../../test/support/until.ts';
import { Denormalizer } from '../../contract/denormalizer.ts';
import type { Message } from '../../contract/message.ts';
import type { ReadModelTransaction } from '../../contract/read-model-transaction.ts';
import { OLD_SNAPSHOT, OldSnapshots } from './lane-budget.ts';

/** How many lanes were leased while each message was applied. */
let leased: number[];

/** Takes so long that claims are short in comparison. */
@Denormalizer({ types: ['look'] })
@Injectable()
class Looks {
  async apply(_message: Message<unknown>, tx: ReadModelTransaction): Promise<void> {
    const [row] = await tx.query<{ n: string }>(
      `SELECT count(*) AS n, pg_sleep(0.005) FROM lane WHERE queue = 'inbox' AND token IS NOT NULL`,
    );
    leased.push(Number(row!.n));
  }
}

@Module({ providers: [Looks] })
class LooksModule {}

const LOOKS = { name: 'looks', entities: [], migrations: [], module: LooksModule };
const SETTINGS = {
  ROLES: 'inbox',
  INBOX_WORKERS: '1',
  INBOX_BATCH_LANES: '16',
  INBOX_BATCH_MESSAGES: '8',
  INBOX_SLICE: '10ms',
  INBOX_POLL: '20ms',
};
const LANES = 16;
const MESSAGES = LANES * 24;

let database: TestDatabase;
let other: pg.Client;

beforeAll(async () => {
  database = await createDatabase();
});
afterAll(() => database.drop());
beforeEach(async () => {
  leased = [];
  other = new pg.Client({ connectionString: database.url });
  await other.connect();
});
afterEach(() => other.end());

const seen = async (olderThanMs: number) => {
  const [row] = await database.query<{ old: boolean }>(OLD_SNAPSHOT, [olderThanMs]);
  return row!.old;
};

/** The number of lanes while a backlog is handled, once it is recognised. */
async function lanesAtATime(oldMs?: number): Promise<number[]> {
  await database.query(
    `INSERT INTO inbox (id, source, type, key, lane, payload)
     SELECT gen_random_uuid(), 's', 'look', n::text, n % ${LANES}, 'null' FROM generate_series(1, ${MESSAGES}) AS n`,
  );
  const replica = await startApp(database, SETTINGS, [LOOKS]);
  try {
    if (oldMs !== undefined) replica.app.nest.get(OldSnapshots).oldMs = oldMs;
    await until(() => leased.length >= MESSAGES);
  } finally {
    await replica.close();
  }
  return [...new Set(leased.slice(MESSAGES * 0.5, MESSAGES * 0.7))];
}

describe('while another transaction is open for a long time', () => {
  it('a worker with a backlog leases few lanes at a time', async () => {
    await other.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await other.query('SELECT count(*) FROM lane');
    await until(() => seen(100));
    expect(await lanesAtATime(100)).toEqual([2]);
  });

  it('and the max otherwise', async () => {
    expect(Math.max(...(await lanesAtATime()))).toBeGreaterThan(2);
  });

  it('one that has written counts like one that reads, one without a snapshot does not', async () => {
    await other.query('BEGIN');
    await other.query('SELECT count(*) FROM lane');
    await until(async () => (await ageOf(other)) > 50);
    expect(await seen(50)).toBe(false);
    await other.query('CREATE TEMPORARY TABLE written ()');
    expect(await seen(50)).toBe(true);
    expect(await seen(3_600_000)).toBe(false);
  });
});

async function ageOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query(
    'SELECT extract(epoch FROM clock_timestamp() - xact_start) * 1000 AS ms FROM pg_stat_activity WHERE pid = pg_backend_pid()',
  );
  return Number(rows[0].ms);
}
