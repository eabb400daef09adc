import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { rowsFiltered } from '../../../test/support/rows-filtered.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { END_MESSAGES, FINISH, LAST_OF_SLOTS, PUT_BACK, SLOT_SETTINGS } from './settle.sql.ts';

const CLAIMED = 200;

let database: TestDatabase;
let client: pg.Client;
let places: string[];

/** Analysed while nothing was marked: the planner believes that nothing ever is, as it does in real life. */
beforeAll(async () => {
  database = await createDatabase();
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query(
    `INSERT INTO inbox (id, source, type, key, lane, payload)
     SELECT n, 's', 't', 'k' || n, n % 256, '{}' FROM generate_series(1, 5000) AS n`,
  );
  await client.query('VACUUM ANALYZE inbox');
  const { rows } = await client.query(
    `UPDATE inbox SET status = 'processing', attempt = 1 WHERE position <= ${CLAIMED} RETURNING ctid`,
  );
  places = rows.map(({ ctid }) => ctid);
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

const positions = Array.from({ length: CLAIMED }, (_, n) => n + 1);
const each = <Value>(value: Value) => positions.map(() => value);

describe('what settles a batch goes straight to its rows, whatever the statistics say', () => {
  it.each([
    ['lapse', END_MESSAGES, () => [positions, each(1), each('dead'), each('e'), each(null), each(true)]],
    ['put back', PUT_BACK, () => [positions, each(1), each('e'), each(true)]],
  ])('%s', async (_, sql, values) => {
    expect(await rowsFiltered(client, FORCE_INDEX_PLANS, sql, values())).toEqual({ lookedAt: 0, left: 0 });
  });

  it('finish, which counts its rows itself', async () => {
    const { lookedAt } = await rowsFiltered(client, FORCE_INDEX_PLANS, FINISH, [places, positions, 1, null]);
    expect(lookedAt).toBe(0);
  });

  it('which a plain join does not', async () => {
    const join = `UPDATE inbox SET status = 'finished', settled_at = now() FROM unnest($1::bigint[]) AS done(position)
                  WHERE inbox.position = done.position AND inbox.status = 'processing'`;
    const { lookedAt } = await rowsFiltered(client, FORCE_INDEX_PLANS, join, [positions]);
    expect(lookedAt).toBeGreaterThan(CLAIMED * CLAIMED);
  });
});

describe('finishing a batch', () => {
  const finish = async (attempt: number) => {
    await client.query('BEGIN');
    const outcome = await client.query(FINISH, [places, positions, attempt, CLAIMED]).then(
      () => 'done',
      ({ code }) => code,
    );
    await client.query('ROLLBACK');
    return outcome;
  };

  it('succeeds where every row is as it was claimed', async () => {
    expect(await finish(1)).toBe('done');
  });

  it('fails where rows were claimed at another attempt: COMMIT may be behind it already', async () => {
    expect(await finish(2)).toBe('22012');
  });
});

describe('the last message of a slot', () => {
  const KEPT = 20_000;
  const WANTED = [['busy'], ['slot'], ['["edited","named"]']];

  beforeAll(async () => {
    await client.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, status, attempt, settled_at)
       SELECT 'old-' || n, 's', 'edited', 'busy', 1, '{}', 'finished', 1, now() FROM generate_series(1, ${KEPT}) AS n`,
    );
    await client.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, expires_at)
       SELECT new.id, 's', new.type, 'busy', 1, '{}', now() + new.lasts::interval
       FROM (VALUES ('first', 'edited', NULL), ('second', 'named', '1 hour'), ('third', 'other', NULL),
                    ('late', 'edited', '-1 second')) AS new(id, type, lasts)`,
    );
  });

  it('is the last of its types that waits and does not expire', async () => {
    const { rows } = await client.query(LAST_OF_SLOTS, WANTED);
    const [{ position }] = (await client.query(`SELECT position FROM inbox WHERE id = 'first'`)).rows;
    expect(rows).toEqual([{ key: 'busy', slot: 'slot', position }]);
  });

  it('is found without reading all that is kept of its key', async () => {
    const explained = `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${LAST_OF_SLOTS}`;
    await client.query(`BEGIN; ${SLOT_SETTINGS}`);
    const { rows } = await client.query(explained, WANTED);
    await client.query('ROLLBACK');
    const { 'Shared Hit Blocks': hit, 'Shared Read Blocks': read } = rows[0]['QUERY PLAN'][0].Plan;
    expect(hit + read).toBeLessThan(50);
  });
});
