import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { inVain } from '../../../test/support/in-vain.ts';
import { STRAIGHT_PLANS } from '../../database/straight-plans.ts';
import { FIND_SPAN, MATCH_DELIVERIES } from './replay.sql.ts';

const HOUR_MS = 3_600_000;
let database: TestDatabase;
let client: pg.Client;

/** Two listeners by turns, a delivery a minute over two weeks; the last one now. */
beforeAll(async () => {
  database = await createDatabase();
  await database.query(`
    INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at)
    VALUES ('m', 's', 't', 'k', 0, 'null', 'finished', now())`);
  await database.query(`
    INSERT INTO outbox (listener, lane, message, key, sequence, status, settled_at, created_at)
    SELECT 1 + n % 2, 256, 1, 'k' || n, 1, 'finished', now(), now() - (20000 - n) * interval '1 minute'
    FROM generate_series(1, 20000) AS n`);
  await database.query(`INSERT INTO replay (listener, filter, matched, created_by) VALUES (1, '{}', 0, 'a')`);
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

const ago = (hours: number) => new Date(Date.now() - hours * HOUR_MS).toISOString();

describe.each(['never analysed', 'analysed'])('on a table that was %s', (state) => {
  beforeAll(async () => {
    if (state === 'analysed') await database.query('ANALYZE inbox, outbox');
  });

  it('a replay of a short time looks at what was created then, not at all that ever was', async () => {
    const span = [1, ago(101), ago(100), HOUR_MS];
    const { lookedAt } = await inVain(client, STRAIGHT_PLANS, FIND_SPAN, span);
    expect(lookedAt).toBe(0);
    const { low, high } = (await client.query(FIND_SPAN, span)).rows[0];
    // An hour, and one before and after it; the other listener has every second position.
    expect(high - low).toBeLessThanOrEqual(182);
    await client.query(`BEGIN; ${STRAIGHT_PLANS}`);
    const values = [1, 1, span[1], span[2], null, null, false, low, high];
    const { rows } = await client.query(`EXPLAIN (COSTS OFF) ${MATCH_DELIVERIES}`, values);
    const matched = await client.query(MATCH_DELIVERIES, values);
    await client.query('ROLLBACK');
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan).toMatch(
      /using outbox_(listener|pkey) on outbox\n +Index Cond: .*position" >= .*position" < /,
    );
    expect(matched.rowCount).toBe(30);
  });
});
