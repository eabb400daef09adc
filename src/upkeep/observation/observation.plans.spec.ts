import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { withClient } from '../../../test/support/client.ts';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { rowsFiltered } from '../../../test/support/rows-filtered.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { OBSERVE_GROUPS } from './observation-groups.sql.ts';

const GROUPS = 10;
const PARTITIONS = 16;
let database: TestDatabase;

beforeAll(async () => {
  database = await createDatabase();
  await database.query(`
    INSERT INTO consumer_group (name, definition, topics, session_ms, max_in_flight, attempts, takeover, on_expired, origin, created_by, updated_by)
    SELECT 'g' || n, '{}', '{t}', 1, 1, 1, 'drain', 'continue', 'api', 'a', 'a' FROM generate_series(1, ${GROUPS}) AS n`);
  await database.query(`
    INSERT INTO topic_partition (topic, partition, next) SELECT 1, n - 1, 1000 FROM generate_series(1, ${PARTITIONS}) AS n`);
  await database.query(`
    INSERT INTO topic_entry (topic, partition, "offset", message, bytes)
    SELECT 1, partition, n, n, 1 FROM topic_partition, generate_series(0, 999) AS n`);
  await database.query(`
    INSERT INTO group_cursor (group_number, topic, partition, start, committed, handed)
    SELECT number, 1, partition, 0, number * 50, number * 50 FROM consumer_group, topic_partition`);
});
afterAll(() => database.drop());

describe.each(['never analysed', 'analysed'])('on tables that were %s', (state) => {
  beforeAll(async () => {
    if (state === 'analysed') await database.query('ANALYZE');
  });

  it('the lag of groups is found by one probe per partition, without reading other messages', async () => {
    const { filtered, returned } = await withClient(database.url, (client) =>
      rowsFiltered(client, FORCE_INDEX_PLANS, OBSERVE_GROUPS, [20_000]),
    );
    expect({ filtered, returned }).toEqual({ filtered: 0, returned: 6 * GROUPS });
  });
});
