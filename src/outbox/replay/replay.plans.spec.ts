import { beforeAll, describe, expect, it } from '@jest/globals';
import { rowsFiltered } from '../../../test/support/rows-filtered.ts';
import { sharedClient } from '../../../test/support/shared-client.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { FIND_SPAN, MATCH_DELIVERIES, PART_END } from './replay.sql.ts';

const HOUR_MS = 3_600_000;
/** Deliveries of other listeners in between are not read. */
const BY_LISTENER =
  /using outbox_listener on outbox\n +Index Cond: .*ROW\(.*listener, .*position.*>= .*ROW\(.*listener, .*position.*< /;
const { database, client } = sharedClient();

/** Two listeners in turn, one delivery a minute over two weeks, the last one now. */
beforeAll(async () => {
  await database.query(`
    INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at)
    VALUES ('m', 's', 't', 'k', 0, 'null', 'finished', now())`);
  await database.query(`
    INSERT INTO outbox (listener, lane, message, key, sequence, status, settled_at, created_at)
    SELECT 1 + n % 2, 256, 1, 'k' || n, 1, 'finished', now(), now() - (20000 - n) * interval '1 minute'
    FROM generate_series(1, 20000) AS n`);
  await database.query(`INSERT INTO replay (listener, filter, matched, created_by) VALUES (1, '{}', 0, 'a')`);
});

async function explained(sql: string, values: unknown[], options = ''): Promise<string> {
  await client.query(`BEGIN; ${FORCE_INDEX_PLANS}`);
  const { rows } = await client.query(`EXPLAIN (${options}COSTS OFF) ${sql}`, values);
  await client.query('ROLLBACK');
  return rows.map((row) => row['QUERY PLAN']).join('\n');
}

const ago = (hours: number) => new Date(Date.now() - hours * HOUR_MS).toISOString();

describe.each(['never analysed', 'analysed'])('on a table that was %s', (state) => {
  beforeAll(async () => {
    if (state === 'analysed') await database.query('ANALYZE inbox, outbox');
  });

  it('a replay of a short time span reads what was created in it, not everything', async () => {
    const span = [1, ago(101), ago(100), HOUR_MS];
    const { filtered } = await rowsFiltered(client, FORCE_INDEX_PLANS, FIND_SPAN, span);
    expect(filtered).toBe(0);
    const { low, high } = (await client.query(FIND_SPAN, span)).rows[0];
    // An hour, and one before and after it; the other listener has every second position.
    expect(high - low).toBeLessThanOrEqual(182);
    await client.query(`BEGIN; ${FORCE_INDEX_PLANS}`);
    const values = [1, 1, span[1], span[2], null, null, false, low, high];
    const { rows } = await client.query(`EXPLAIN (COSTS OFF) ${MATCH_DELIVERIES}`, values);
    const matched = await client.query(MATCH_DELIVERIES, values);
    await client.query('ROLLBACK');
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan).toMatch(BY_LISTENER);
    expect(matched.rowCount).toBe(30);
  });

  it('a replay of everything reads no more deliveries at a time than its limit', async () => {
    const values = [1, 0, 20_001, 500];
    const plan = await explained(PART_END, values);
    expect(plan).toMatch(BY_LISTENER);
    expect(plan).not.toContain('Filter');
    expect(plan).not.toContain('Sort');
    const { rows } = await client.query(PART_END, values);
    // The 501st of the listener's own, which has every second position.
    expect(rows).toEqual([{ part_end: String(2 * 501) }]);
    const match = [1, 1, ago(1_000), null, null, null, false, 0, rows[0].part_end];
    const scanned = await explained(MATCH_DELIVERIES, match, 'ANALYZE, TIMING OFF, SUMMARY OFF, ');
    expect(scanned).toMatch(/using outbox_listener on outbox .*rows=500/);
  });

  it('a replay of everything ends with the last part', async () => {
    const { rows } = await client.query(PART_END, [1, 19_900, 20_001, 500]);
    expect(rows).toEqual([{ part_end: '20001' }]);
  });
});
