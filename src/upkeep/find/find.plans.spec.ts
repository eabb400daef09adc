import { beforeAll, describe, expect, it } from '@jest/globals';
import { rowsFiltered } from '../../../test/support/rows-filtered.ts';
import { sharedClient } from '../../../test/support/shared-client.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { FIND } from './find.sql.ts';

const { database, client } = sharedClient();

beforeAll(async () => {
  await database.query(`
    INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at)
    SELECT 'm-' || n, 's', 't', 'k-' || n % 100, n % 256, 'null', 'finished', now() FROM generate_series(1, 20000) AS n`);
  await database.query(`
    INSERT INTO listener (revision, name, definition, types, lanes, sealed, secret_from, origin, state_by, created_by, updated_by)
    SELECT n, 'l-' || n, '{}', '{t}', 1, 'v1:x', 'service', 'api', 'a', 'a', 'a' FROM generate_series(1, 1000) AS n`);
  await database.query(`
    INSERT INTO hold (queue, key, lane, until, reason)
    SELECT 'inbox', 'held-' || n, n % 256, 'infinity', 'operator' FROM generate_series(1, 5000) AS n`);
});

describe.each(['never analysed', 'analysed'])('on tables that were %s', (state) => {
  beforeAll(async () => {
    if (state === 'analysed') await database.query('ANALYZE');
  });

  it.each([
    ['a message id', 'm-77', 1],
    ['a key', 'k-7', 1],
    ['a held key', 'held-7', 1],
    ['the beginning of names', 'l-9', 10],
    ['nothing', 'nothing', 0],
  ])('%s is found by an index, without reading other rows', async (_what, text, count) => {
    const lane = text === 'held-7' ? 7 : 0;
    const seen = await rowsFiltered(client, FORCE_INDEX_PLANS, FIND, [text, 10, lane]);
    expect(seen).toEqual({ filtered: 0, returned: count });
    await client.query(`BEGIN; ${FORCE_INDEX_PLANS}`);
    const { rows } = await client.query(`EXPLAIN (COSTS OFF) ${FIND}`, [text, 10, lane]);
    await client.query('ROLLBACK');
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan).not.toMatch(/Seq Scan on (inbox|hold|listener|topic|consumer_group|schedule)/);
  });
});
