import { beforeAll, describe, expect, it } from '@jest/globals';
import { rowsFiltered } from '../../../test/support/rows-filtered.ts';
import { sharedClient } from '../../../test/support/shared-client.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { END_MESSAGES, FINISH, LAST_OF_SLOTS, PUT_BACK, SLOT_SETTINGS } from './settle.sql.ts';

const CLAIMED = 200;

const { client } = sharedClient();
let places: string[];

/** Analysed while no row was marked: the planner assumes that none ever is, as in production. */
beforeAll(async () => {
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

const positions = Array.from({ length: CLAIMED }, (_, n) => n + 1);
const each = <Value>(value: Value) => positions.map(() => value);

describe('the statements that settle a batch read only its rows, whatever the statistics are', () => {
  it.each([
    ['lapse', END_MESSAGES, () => [positions, each(1), each('dead'), each('e'), each(null), each(true)]],
    ['put back', PUT_BACK, () => [positions, each(1), each('e'), each(true)]],
  ])('%s', async (_, sql, values) => {
    expect(await rowsFiltered(client, FORCE_INDEX_PLANS, sql, values())).toEqual({
      filtered: 0,
      returned: 0,
    });
  });

  it('finish, which counts its rows', async () => {
    const { filtered } = await rowsFiltered(client, FORCE_INDEX_PLANS, FINISH, [
      places,
      positions,
      1,
      null,
      true,
    ]);
    expect(filtered).toBe(0);
  });

  it('which a plain join would not', async () => {
    const join = `UPDATE inbox SET status = 'finished', settled_at = now() FROM unnest($1::bigint[]) AS done(position)
                  WHERE inbox.position = done.position AND inbox.status = 'processing'`;
    const { filtered } = await rowsFiltered(client, FORCE_INDEX_PLANS, join, [positions]);
    expect(filtered).toBeGreaterThan(CLAIMED * CLAIMED);
  });
});

describe('finishing a batch', () => {
  const finish = async (attempt: number) => {
    await client.query('BEGIN');
    const outcome = await client.query(FINISH, [places, positions, attempt, CLAIMED, true]).then(
      () => 'done',
      ({ code }) => code,
    );
    await client.query('ROLLBACK');
    return outcome;
  };

  it('succeeds if every row is as it was claimed', async () => {
    expect(await finish(1)).toBe('done');
  });

  it('fails if rows were claimed with another attempt number: an earlier COMMIT may have happened', async () => {
    expect(await finish(2)).toBe('22012');
  });
});

describe('the order of application', () => {
  const finishInGroups = async (from: number, groups: number) => {
    await client.query('BEGIN');
    for (let group = 0; group < groups; group++) {
      const rows = [from + 2 * group, from + 2 * group + 1];
      const { rows: claimed } = await client.query(
        `UPDATE inbox SET status = 'processing', attempt = 1 WHERE position = ANY ($1) RETURNING ctid, position`,
        [rows],
      );
      await client.query(FINISH, [
        claimed.map(({ ctid }) => ctid),
        claimed.map(({ position }) => position),
        1,
        2,
        group === 0,
      ]);
    }
    await client.query('COMMIT');
  };

  it('is one number per transaction, ascending, whatever the positions are', async () => {
    await finishInGroups(1_000, 2);
    await finishInGroups(900, 1);
    const { rows } = await client.query<{ applied: string; positions: string[] }>(
      `SELECT applied, array_agg(position ORDER BY position) AS positions FROM inbox
       WHERE applied IS NOT NULL GROUP BY applied ORDER BY applied`,
    );
    expect(rows.map(({ positions }) => positions.map(Number))).toEqual([
      [1_000, 1_001, 1_002, 1_003],
      [900, 901],
    ]);
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

  it('is the last pending one of its types that does not expire', async () => {
    const { rows } = await client.query(LAST_OF_SLOTS, WANTED);
    const [{ position }] = (await client.query(`SELECT position FROM inbox WHERE id = 'first'`)).rows;
    expect(rows).toEqual([{ key: 'busy', slot: 'slot', position }]);
  });

  it('is found without reading all stored messages of its key', async () => {
    const explained = `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${LAST_OF_SLOTS}`;
    await client.query(`BEGIN; ${SLOT_SETTINGS}`);
    const { rows } = await client.query(explained, WANTED);
    await client.query('ROLLBACK');
    const { 'Shared Hit Blocks': hit, 'Shared Read Blocks': read } = rows[0]['QUERY PLAN'][0].Plan;
    expect(hit + read).toBeLessThan(50);
  });
});
