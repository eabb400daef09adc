import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { withClient } from '../../../test/support/client.ts';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { REMOVE_MESSAGES } from './retention.sql.ts';
import { OLD_PARTITIONS, REMOVE_ENTRIES, REMOVE_ENTRIES_OF } from './topic-retention.sql.ts';

let database: TestDatabase;

beforeAll(async () => {
  database = await createDatabase();
  await database.query(`
    INSERT INTO inbox (id, source, type, key, lane, payload, status, received_at, settled_at)
    SELECT n::text, 's', 't', 'k' || n % 100, n % 256, 'null', 'finished', now() - interval '1 day', now() - interval '1 day'
    FROM generate_series(1, 20000) AS n`);
  await database.query(`
    INSERT INTO topic_entry (topic, partition, "offset", message, bytes)
    SELECT topic, 0, position, position, 1 FROM inbox, generate_series(1, 10) AS topic`);
  await database.query(`
    INSERT INTO topic_partition (topic, partition, next) SELECT topic, 0, 20001 FROM generate_series(1, 10) AS topic`);
});
afterAll(() => database.drop());

const planOf = (sql: string, values: unknown[]) =>
  withClient(database.url, async (client) => {
    await client.query(`BEGIN; ${FORCE_INDEX_PLANS}`);
    const { rows } = await client.query(`EXPLAIN (COSTS OFF) ${sql}`, values);
    return rows.map((row) => row['QUERY PLAN']).join('\n');
  });

describe.each(['never analysed', 'analysed'])('on tables that were %s', (state) => {
  beforeAll(async () => {
    if (state === 'analysed') await database.query('ANALYZE inbox, topic_entry, topic_partition');
  });

  it('a step probes the entries of each of its messages, and never reads all entries', async () => {
    const plan = await planOf(REMOVE_MESSAGES, [0, 2_000, [], [], 1, 1, 1, 1, 1, 1, ['t']]);
    expect(plan).toMatch(/topic_entry_message/);
    expect(plan).not.toMatch(/Seq Scan on (topic_entry|inbox)|Merge/);
  });

  it.each([
    [
      'the search for old partitions',
      OLD_PARTITIONS,
      [
        [1, 2, 3],
        [1, 1, 1],
      ],
    ],
    ['a step of a partition', REMOVE_ENTRIES, [1, 0, 500, 1, 2_000]],
    ['a step of a deleted topic', REMOVE_ENTRIES_OF, [1, 2_000]],
  ])('%s reads entries by their place', async (_what, sql, values) => {
    const plan = await planOf(sql, values);
    expect(plan).toMatch(/topic_entry_pkey/);
    expect(plan).not.toMatch(/Seq Scan on topic_entry/);
  });
});
