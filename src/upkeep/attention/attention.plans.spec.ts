import { beforeAll, describe, expect, it } from '@jest/globals';
import { rowsFiltered } from '../../../test/support/rows-filtered.ts';
import { sharedClient } from '../../../test/support/shared-client.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { DEAD_LETTERS, INDEFINITE_HOLDS, MAX_DEAD, PRODUCER_GAPS } from './attention.sql.ts';

const { database, client } = sharedClient();

/** Far more than is shown: dead letters, keys that are held for other reasons, and producers without a gap. */
beforeAll(async () => {
  await database.query(`
    INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at, lapsed_at, error)
    SELECT 'm-' || n, 's', 't', 'k', 0, 'null', 'dead', now(), now() - n * interval '1 second', 'no order ' || n
    FROM generate_series(1, 20000) AS n`);
  await database.query(`
    INSERT INTO hold (queue, key, lane, until, reason)
    SELECT 'inbox', 'k-' || n, n % 256, CASE WHEN n % 2 = 0 THEN 'infinity' ELSE now() END, CASE WHEN n % 1000 = 0 THEN 'operator' ELSE 'dead-letter' END
    FROM generate_series(1, 20000) AS n`);
  await database.query(`
    INSERT INTO producer (source, id, last, missing, seen_at)
    SELECT 's', 'p-' || n, 10, CASE WHEN n % 1000 = 0 THEN '{[3,5)}' ELSE '{}' END::int8multirange, now() - interval '1 hour'
    FROM generate_series(1, 20000) AS n`);
});

describe.each(['never analysed', 'analysed'])('on tables that were %s', (state) => {
  beforeAll(async () => {
    if (state === 'analysed') await database.query('ANALYZE');
  });

  it.each([
    ['indefinite holds', INDEFINITE_HOLDS],
    ['producers with a gap', PRODUCER_GAPS],
  ])('%s are found by their index, without reading others', async (_what, sql) => {
    expect(await rowsFiltered(client, FORCE_INDEX_PLANS, sql, [])).toEqual({ filtered: 0, returned: 20 });
  });

  it('no more dead letters are read than the newest', async () => {
    await client.query(`BEGIN; ${FORCE_INDEX_PLANS}`);
    const { rows } = await client.query(
      `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ${DEAD_LETTERS}`,
    );
    const found = await client.query(DEAD_LETTERS);
    await client.query('ROLLBACK');
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan).toMatch(new RegExp(`Index Scan.* on inbox .*rows=${MAX_DEAD}\\b`));
    expect(found.rows).toEqual([
      expect.objectContaining({ stage: 'inbox', count: MAX_DEAD, capped: true, fingerprint: 'no order <n>' }),
    ]);
  });
});
