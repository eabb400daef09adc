import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { startApp, type TestApp } from '../../../test/support/app.ts';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { leasedForAnHour } from '../../../test/support/leased-lane.ts';
import type { LeasedLane } from './leased-lane.ts';
import { ClaimQueue } from './outbox-queue.ts';

let database: TestDatabase;
/** Without the outbox role: only the test leases lanes. */
let replica: TestApp;

beforeAll(async () => {
  database = await createDatabase();
  replica = await startApp(database, { ROLES: 'api' });
});
afterEach(() => database.query(`TRUNCATE outbox; DELETE FROM lane WHERE queue = 'outbox'`));
afterAll(async () => {
  await replica.close();
  await database.drop();
});

/** A leased lane with as many ready deliveries as it may claim at a time. */
async function laneWithRows(lane: number, maxRows: number): Promise<LeasedLane> {
  const token = randomUUID();
  await database.query(
    `INSERT INTO lane (queue, lane, token, leased_until) VALUES ('outbox', $1, $2, now() + interval '1 hour')`,
    [lane, token],
  );
  await database.query(
    `INSERT INTO outbox (listener, lane, message, key, sequence)
     SELECT 1, $1, n, 'k-' || n, 1 FROM generate_series(1, $2::int) AS n`,
    [lane, maxRows],
  );
  return leasedForAnHour(lane, token, maxRows);
}

/** For each transaction that claimed: in how many lanes. */
async function lanesPerClaim(): Promise<number[]> {
  const rows = await database.query<{ lanes: number }>(
    'SELECT count(DISTINCT lane)::int AS lanes FROM outbox GROUP BY xmin::text ORDER BY min(lane)',
  );
  return rows.map(({ lanes }) => lanes);
}

it.each([
  [
    'few lanes at a time when they want many rows, so that some send while the others wait',
    5,
    512,
    [2, 2, 1],
  ],
  ['many lanes at a time when they want few rows', 20, 32, [20]],
  ['one lane at a time when it wants more rows than the limit', 2, 2_000, [1, 1]],
])('claims for %s', async (_, count, maxRows, claims) => {
  const lanes: LeasedLane[] = [];
  for (let n = 0; n < count; n++) lanes.push(await laneWithRows(256 + n, maxRows));
  const asked = lanes.map((leased) => replica.app.nest.get(ClaimQueue).next(leased));
  const got = await Promise.all(asked);
  expect(got.map((rows) => rows.length)).toEqual(lanes.map(() => maxRows));
  expect(await lanesPerClaim()).toEqual(claims);
});

it('claims separately for lanes that want different numbers of rows', async () => {
  const lanes = [await laneWithRows(256, 4), await laneWithRows(257, 8), await laneWithRows(258, 4)];
  const got = await Promise.all(lanes.map((leased) => replica.app.nest.get(ClaimQueue).next(leased)));
  expect(got.map((rows) => rows.map(({ lane }) => lane))).toEqual([
    Array(4).fill(256),
    Array(8).fill(257),
    Array(4).fill(258),
  ]);
  expect(await lanesPerClaim()).toEqual([2, 1]);
});

it.each([
  ['is lost', { lost: true }],
  ['must be released', { untilMs: 0 }],
])('claims nothing for a lane that %s when its turn comes', async (_, expired) => {
  const [first, second] = [await laneWithRows(256, 2), { ...(await laneWithRows(257, 2)), ...expired }];
  const claims = replica.app.nest.get(ClaimQueue);
  expect(await Promise.all([claims.next(first), claims.next(second)])).toMatchObject([[{}, {}], []]);
  expect(await database.query('SELECT status FROM outbox WHERE lane = 257')).toEqual([
    { status: 'pending' },
    { status: 'pending' },
  ]);
});
