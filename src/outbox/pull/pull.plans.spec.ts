import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { rowsFiltered } from '../../../test/support/rows-filtered.ts';
import { HAND_OUT, PULL_SETTINGS } from './hand-out.sql.ts';
import { SETTLE, SETTLE_SETTINGS } from './lease.sql.ts';

const ROWS = 40_000;
const LANES = 16;
const IN_FLIGHT = 800;
const MAX = 50;
/** Rows of intermediate results that a filter removes: far below what a table has. */
const FEW = 2_000;

let database: TestDatabase;
let client: pg.Client;

beforeAll(async () => {
  database = await createDatabase();
  for (const table of ['inbox', 'outbox', 'hold', 'pull_lease'])
    await database.query(`ALTER TABLE ${table} SET (autovacuum_enabled = off)`);
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

const lanes = Array.from({ length: LANES }, (_, n) => 256 + n);
const locked = `SELECT set_config('sluice.pull_lanes', '${lanes.join(',')}', true)`;

async function pulled(ordered = true) {
  const values = [1, MAX, 1_000_000, randomUUID(), 30_000, 5_000, null, null, 1.25, ordered];
  return rowsFiltered(client, `${PULL_SETTINGS}; ${locked}`, HAND_OUT, values);
}

async function settled() {
  const leases = await database.query<Record<'lane' | 'position' | 'attempt' | 'token', unknown>>(
    'SELECT lane, position, attempt, token FROM pull_lease ORDER BY position DESC LIMIT 50',
  );
  const column = (name: 'lane' | 'position' | 'attempt' | 'token') => leases.map((lease) => lease[name]);
  const all = <T>(value: T) => leases.map(() => value);
  const values = [
    ...[column('lane'), column('position').map(Number), column('attempt'), column('token')],
    ...[all('finish'), all(false), all(null), all(null), all(null)],
  ];
  return rowsFiltered(client, SETTLE_SETTINGS, SETTLE, values);
}

/** Deliveries of that many keys; the first ones are in flight. */
async function grow(keys: number): Promise<void> {
  await database.query('TRUNCATE inbox, outbox, hold, pull_lease');
  await database.query(
    `INSERT INTO inbox (position, id, source, type, key, lane, payload, status, settled_at)
     OVERRIDING SYSTEM VALUE
     SELECT n, n::text, 's', 't', n % $2::integer, 0, 'null', 'finished', now() FROM generate_series(1, $1::integer) AS n`,
    [ROWS, keys],
  );
  await database.query(
    `INSERT INTO outbox (position, listener, lane, message, key, sequence) OVERRIDING SYSTEM VALUE
     SELECT n, 1, 256 + (n % $2::integer) % $3::integer, n, n % $2::integer, 1 FROM generate_series(1, $1::integer) AS n`,
    [ROWS, keys, LANES],
  );
  await database.query(
    `INSERT INTO pull_lease (lane, position, key, token, attempt, expires_at)
     SELECT lane, position, key, gen_random_uuid(), 1, now() + interval '1 hour' FROM outbox
     WHERE position <= LEAST($1::integer, $2::integer)`,
    [IN_FLIGHT, keys],
  );
}

describe('a pull reads only what it hands out, and what is in flight', () => {
  it('on empty tables', async () => {
    expect((await pulled()).filtered).toBe(0);
  });

  it.each([
    ['many keys', 10_000],
    ['few keys', 40],
  ])('on tables that grew before their first ANALYZE, with %s, and then', async (_, keys) => {
    await grow(keys);
    const found = Math.min(MAX, keys);
    for (const step of ['never analysed', 'analysed']) {
      if (step === 'analysed') await database.query('ANALYZE');
      const { filtered, returned } = await pulled();
      expect([step, filtered < IN_FLIGHT + FEW]).toEqual([step, true]);
      // Where all keys have one in flight, nothing can be handed out.
      expect(returned).toBe(keys > IN_FLIGHT ? found : 1);
      const settling = await settled();
      expect([step, settling.filtered < FEW, settling.returned]).toEqual([step, true, Math.min(50, keys)]);
    }
  });

  it('with everything parked behind holds, of which a few are due', async () => {
    await grow(1_000);
    await database.query(`UPDATE outbox SET status = 'held', waits = 'held'`);
    await database.query(
      `INSERT INTO hold (queue, lane, key, until, reason)
       SELECT DISTINCT 'outbox', lane, key, CASE WHEN key::integer % 10 = 9 THEN now() ELSE now() + interval '1 day' END, 'retry'
       FROM outbox`,
    );
    expect((await settled()).filtered).toBeLessThan(FEW);
    await database.query('DELETE FROM pull_lease');
    for (const step of ['not vacuumed', 'vacuumed']) {
      if (step === 'vacuumed') await database.query('VACUUM ANALYZE outbox, hold');
      const { filtered, returned } = await pulled();
      expect([step, filtered < FEW, returned]).toEqual([step, true, MAX]);
    }
  });

  it('with everything settled', async () => {
    await database.query('DELETE FROM hold');
    await database.query(`UPDATE outbox SET status = 'finished', waits = NULL, settled_at = now()`);
    expect(await pulled(false)).toEqual({ filtered: 0, returned: 1 });
  });
});
