import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { rowsFiltered } from '../../../test/support/rows-filtered.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { applyAction, NEXT_KEYS } from './dead-letter-actions.sql.ts';
import { deadLettersOf, stagesOf } from './dead-letter-conditions.ts';
import type { DeadLetterFilter } from './dead-letter-filter.ts';
import { groupDeadLetters, listDeadLetters } from './dead-letters.sql.ts';

let database: TestDatabase;

beforeAll(async () => {
  database = await createDatabase();
  await database.query(`
    INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at, lapsed_at, error)
    SELECT n::text, 's', 't', 'k' || n % 100, n % 256, 'null', CASE WHEN n % 1000 = 0 THEN 'dead' ELSE 'superseded' END,
           now(), now() - n * interval '1 second', 'error ' || n
    FROM generate_series(1, 20000) AS n`);
  await database.query(`
    INSERT INTO outbox (listener, lane, message, key, sequence, status, settled_at, lapsed_at, error)
    SELECT 1, 256, position, key, 1, CASE WHEN status = 'dead' THEN 'dead' ELSE 'discarded' END, now(), lapsed_at, error
    FROM inbox`);
  await database.query(`
    INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at, lapsed_at)
    SELECT 'long-' || n, 's', 't', 'long', 0, 'null', 'dead', now(), now() FROM generate_series(1, 3000) AS n`);
  await database.query(`
    INSERT INTO consumer_group (name, definition, topics, session_ms, max_in_flight, attempts, takeover, on_expired, origin, created_by, updated_by)
    VALUES ('readers', '{}', '{t}', 1, 1, 1, 'drain', 'continue', 'api', 'a', 'a')`);
  await database.query(`
    INSERT INTO topic_entry (topic, partition, "offset", message, bytes)
    SELECT topic, 0, position, position, 1 FROM inbox, generate_series(1, 2) AS topic`);
  await database.query(`
    INSERT INTO rejection (group_number, topic, partition, "offset", dead_topic, dead_offset, reason, attempts, status, ruled_at, ruled_by)
    SELECT 1, 1, 0, position, 2, position, 'error ' || position, 1, CASE WHEN position % 1000 = 0 THEN 'dead' ELSE 'discarded' END,
           CASE WHEN position % 1000 > 0 THEN now() END, CASE WHEN position % 1000 > 0 THEN 'a' END
    FROM inbox WHERE position <= 20000`);
  await database.query(
    `INSERT INTO ruling (kind, filter, matched, created_by) VALUES ('revive', '{}', 3000, 'a')`,
  );
  await database.query(`
    INSERT INTO ruling_item (ruling, stage, lane, key, position)
    SELECT 1, 'inbox', 0, 'long', position FROM inbox WHERE key = 'long'`);
  await database.query(`
    UPDATE ruling_item SET outcome = 'done'
    WHERE position IN (SELECT position FROM ruling_item ORDER BY position LIMIT 2000)`);
  // Revived and in flight at two listeners, each with remaining items.
  await database.query(`
    INSERT INTO outbox (listener, lane, message, key, sequence, status, waits, ruling)
    SELECT n, n * 256, 1, 'way-' || way, 1, 'held', 'held', 1
    FROM generate_series(2, 3) AS n, generate_series(1, 1000) AS way`);
  await database.query(`
    INSERT INTO ruling_item (ruling, stage, lane, key, position)
    SELECT 1, 'outbox', n * 256, 'left', n FROM generate_series(2, 3) AS n`);
});
afterAll(() => database.drop());

const parts = (filter: DeadLetterFilter, values: unknown[]) =>
  stagesOf(filter).map((stage) => ({ stage, from: deadLettersOf(stage, filter, values) }));

async function connected<Answer>(work: (client: pg.Client) => Promise<Answer>): Promise<Answer> {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

const planOf = (sql: string, values: unknown[]) =>
  connected(async (client) => {
    await client.query(`BEGIN; ${FORCE_INDEX_PLANS}`);
    const { rows } = await client.query(`EXPLAIN (COSTS OFF) ${sql}`, values);
    return rows.map((row) => row['QUERY PLAN']).join('\n');
  });

describe.each(['never analysed', 'analysed'])('on a table that was %s', (state) => {
  beforeAll(async () => {
    if (state === 'analysed')
      await database.query('ANALYZE inbox, outbox, ruling_item, topic_entry, rejection');
  });

  it.each<DeadLetterFilter>([
    {},
    { stage: 'inbox' },
    { stage: 'inbox', key: 'k1' },
    { error: 'error 7', type: 'x*' },
  ])('listing %j reads only dead letters, not all settled rows', async (filter) => {
    const values: unknown[] = [51, null, null, null];
    const plan = await planOf(listDeadLetters(parts(filter, values)), values);
    expect(plan).not.toMatch(/Seq Scan on (inbox|outbox)/);
    expect(plan).toMatch(/inbox_dead/);
  });

  it('so does grouping them', async () => {
    const values: unknown[] = [50];
    const plan = await planOf(groupDeadLetters(parts({}, values)), values);
    expect(plan).toMatch(/inbox_dead/);
    expect(plan).toMatch(/outbox_(dead|dead_key|dead_listener)\b/);
    expect(plan).not.toMatch(/Seq Scan on (inbox|outbox)/);
  });

  it('an action reads only the items of its step, however many its key has', async () => {
    const { filtered } = await connected((client) =>
      rowsFiltered(client, FORCE_INDEX_PLANS, applyAction('inbox', 'revive'), [1, 0, 500]),
    );
    // Each of them is either a dead letter or not.
    expect(filtered).toBe(500);
  });

  it('an action finds a queue below its limit without reading its items in flight in other queues', async () => {
    const { filtered, returned } = await connected((client) =>
      rowsFiltered(client, FORCE_INDEX_PLANS, NEXT_KEYS, [1, 500]),
    );
    expect({ filtered, returned }).toEqual({ filtered: 0, returned: 3 });
  });
});
