import { beforeAll, describe, expect, it } from '@jest/globals';
import { rowsFiltered } from '../../../test/support/rows-filtered.ts';
import { sharedClient } from '../../../test/support/shared-client.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { EXPIRED, EXPIRED_SCHEDULED } from './expired-messages.ts';

const { database, client } = sharedClient();

beforeAll(async () => {
  await database.query(`
    INSERT INTO inbox (id, source, type, key, lane, payload, status, waits, due_at, expires_at)
    SELECT n::text, 's', 't', 'k', n % 256, 'null', CASE WHEN n % 2 = 0 THEN 'scheduled' ELSE 'held' END,
           CASE WHEN n % 2 = 0 THEN 'due' ELSE 'held' END, now() + interval '1 day',
           now() + CASE WHEN n % 2000 < 2 THEN interval '-1 s' ELSE interval '2 days' END
    FROM generate_series(1, 20000) AS n`);
});

describe.each(['never analysed', 'analysed'])('on a table that was %s', (state) => {
  beforeAll(async () => {
    if (state === 'analysed') await database.query('ANALYZE inbox');
  });

  it.each([
    ['behind a hold', EXPIRED],
    ['before its dueAt', EXPIRED_SCHEDULED],
  ])('the scan for expired messages %s reads no other waiting rows', async (_where, sql) => {
    expect(await rowsFiltered(client, FORCE_INDEX_PLANS, sql, [1_000])).toEqual({
      filtered: 0,
      returned: 10,
    });
  });
});
