import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { startReplica, type TestReplica } from '../../test/support/lanes.ts';
import { rowsFiltered } from '../../test/support/rows-filtered.ts';
import { FORCE_INDEX_PLANS } from '../database/force-index-plans.ts';
import { endDeadLetterHold } from './requeue-holds.sql.ts';
import { type ChangedKey, holdRequeuedKeys, isPartlyRequeued } from './requeue-holds.ts';

let database: TestDatabase;
let replica: TestReplica;

beforeAll(async () => {
  database = await createDatabase();
  replica = startReplica(database);
});
afterEach(() => database.query('TRUNCATE inbox, outbox, hold'));
afterAll(async () => {
  await replica.close();
  await database.drop();
});

const PLACE = { stage: 'inbox', lane: 7 } as const;
const replay = (n: number) => ({ name: `replay ${n}`, note: `replay ${n}`, passesDeadLetters: true });
const ruling = (n: number) => ({ name: `ruling ${n}`, note: `by ruling ${n}`, passesDeadLetters: false });
const put = (keeper: ReturnType<typeof replay>, key: Partial<ChangedKey> = {}) =>
  replica.database.transaction((tx) =>
    holdRequeuedKeys(tx, PLACE, [{ key: 'k', changed: 1, partial: false, ...key }], keeper),
  );
const halfWay = (keeper: ReturnType<typeof replay>) =>
  replica.database.transaction((tx) => isPartlyRequeued(tx, PLACE, 'k', keeper));
const hold = async () => {
  const [row] = await database.query(
    'SELECT until <= clock_timestamp() AS due, reason, kept_by AS by FROM hold',
  );
  return row;
};

/** In one commit, as the service does. */
async function die(id: string): Promise<void> {
  await database.query(
    `WITH dead AS (
       INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at, lapsed_at)
       VALUES ($1, 's', 't', 'k', 7, 'null', 'dead', now(), now()))
     INSERT INTO hold (queue, lane, key, until, reason) VALUES ('inbox', 7, 'k', 'infinity', 'dead-letter')
     ON CONFLICT (queue, lane, key) DO UPDATE SET reason = 'dead-letter', set_at = now()`,
    [id],
  );
}

describe('a hold', () => {
  it('is due when the last requeuer has finished the key', async () => {
    for (const keeper of [replay(1), ruling(1), replay(11)]) await put(keeper, { partial: true });
    expect(await hold()).toEqual({ due: false, reason: 'operator', by: 'replay 1, ruling 1, replay 11' });
    expect(await Promise.all([replay(1), replay(11), replay(2)].map(halfWay))).toEqual([true, true, false]);
    await put(ruling(1));
    await put(replay(2));
    await put(replay(11));
    expect(await hold()).toEqual({ due: false, reason: 'operator', by: 'replay 1' });
    await put(replay(1));
    expect(await hold()).toEqual({ due: true, reason: 'operator', by: null });
  });

  it('of a message that died during a requeue stays, however the key is split into steps', async () => {
    await put(replay(1), { partial: true });
    await die('d');
    await put(replay(1), { partial: true });
    expect(await hold()).toEqual({ due: false, reason: 'dead-letter', by: 'replay 1' });
    await put(replay(1));
    expect(await hold()).toEqual({ due: false, reason: 'dead-letter', by: null });
  });

  it('of a dead letter is passed by a replay once no ruling is part way through the key, and never by a ruling', async () => {
    await die('d');
    await put(ruling(1), { partial: true });
    await put(ruling(2));
    expect(await hold()).toEqual({ due: false, reason: 'dead-letter', by: 'ruling 1' });
    await put(replay(1));
    expect(await hold()).toMatchObject({ due: false, by: 'ruling 1' });
    await put(ruling(1));
    expect(await hold()).toMatchObject({ due: true, by: null });
  });

  it('of a dead letter that was passed does not come back with another requeue', async () => {
    await die('d');
    await database.query('UPDATE hold SET until = now()');
    await put(ruling(1), { partial: true });
    await put(ruling(1));
    expect(await hold()).toEqual({ due: true, reason: 'operator', by: null });
  });

  it('of a dead letter ends without reading other settled rows', async () => {
    await database.query(`
      INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at, lapsed_at)
      SELECT n::text, 's', 't', 'k', 7, 'null', 'superseded', now(), now() FROM generate_series(1, 3000) AS n`);
    await die('d');
    await database.query(`UPDATE inbox SET status = 'discarded' WHERE id = 'd'`);
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    try {
      const { filtered } = await rowsFiltered(client, FORCE_INDEX_PLANS, endDeadLetterHold('inbox'), [
        'inbox',
        7,
        ['k'],
      ]);
      expect(filtered).toBe(0);
    } finally {
      await client.end();
    }
  });
});
