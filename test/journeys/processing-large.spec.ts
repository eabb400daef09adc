import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import { Pending } from '../../src/contract/pending.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import type { Problem } from '../../src/http/problems.ts';
import { laneOf } from '../../src/lanes/lane-of.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { oneTableReadModel } from '../support/one-table-read-model.ts';
import { until } from '../support/until.ts';

type Load = { n: number; fails?: boolean; text: string };

const WEIGH = 'INSERT INTO weight (key, n, length) VALUES ($1, $2, $3)';

@Denormalizer({ types: ['load'] })
@Injectable()
class Weights {
  async apply({ key, payload }: Message<Load>, tx: ReadModelTransaction): Promise<void> {
    if (payload.fails) throw new Error('too heavy');
    await tx.query(WEIGH, [key, payload.n, payload.text.length]);
  }
}

@Denormalizer({ types: ['called'] })
@Injectable()
class Called {
  async prepare({ payload }: Message<Load>): Promise<number> {
    return payload.text.length;
  }
  async apply({ key, payload }: Message<Load>, tx: ReadModelTransaction, length: number): Promise<void> {
    await tx.query(WEIGH, [key, payload.n, length + payload.text.length]);
  }
}

const WEIGHTS = oneTableReadModel('weight (at bigserial, key text, n int, length int)', [Weights, Called]);
const MEGABYTE = 1_000_000;

let database: TestDatabase;
let replica: TestApp;

beforeAll(async () => {
  database = await createDatabase();
  const settings = { INBOX_RETRY_SCHEDULE: '1ms', INBOX_POLL: '20ms' };
  replica = await startApp(database, settings, [WEIGHTS]);
});
afterAll(async () => {
  await replica.close();
  await database.drop();
});

/** All in one commit, so in one claim. */
const load = (key: string, count: number, { type = 'load', failing = 0, bytes = MEGABYTE } = {}) =>
  database.query(
    `INSERT INTO inbox (id, source, type, key, lane, payload)
     SELECT $1 || '-' || n, 's', $2, $1, $3, json_build_object('n', n, 'fails', n = $4, 'text', repeat('x', $5))
     FROM generate_series(1, $6) AS n ORDER BY n`,
    [key, type, laneOf(key, 256), failing, bytes, count],
  );
const weights = (key: string) =>
  database.query<{ n: number; length: number; xmin: string }>(
    'SELECT n, length, xmin FROM weight WHERE key = $1 ORDER BY at',
    [key],
  );

describe('a claim of large messages', () => {
  it('is applied in parts that fit into memory, in order, each payload as it was sent', async () => {
    await load('heavy', 20);
    await until(async () => (await weights('heavy')).length === 20);
    const rows = await weights('heavy');
    expect(rows.map(({ n }) => n)).toEqual(Array.from({ length: 20 }, (_, n) => n + 1));
    expect(rows.every(({ length }) => length === MEGABYTE)).toBe(true);
    const sizes = new Map<string, number>();
    for (const { xmin } of rows) sizes.set(xmin, (sizes.get(xmin) ?? 0) + 1);
    expect(Math.max(...sizes.values())).toBe(8);
  });

  it('is one transaction if all of them fit', async () => {
    await load('middling', 20, { bytes: 20_000 });
    await until(async () => (await weights('middling')).length === 20);
    expect(new Set((await weights('middling')).map(({ xmin }) => xmin)).size).toBe(1);
  });

  it('applies nothing of a key after a failure in an earlier part', async () => {
    await load('failing', 20, { failing: 3 });
    await until(async () => {
      const [third] = await database.query(`SELECT status FROM inbox WHERE id = 'failing-3'`);
      return third!.status === 'dead';
    });
    const waiting = `SELECT FROM inbox WHERE key = 'failing' AND status = 'held' AND attempt = 0`;
    await until(async () => (await database.query(waiting)).length === 17);
    expect((await weights('failing')).map(({ n }) => n)).toEqual([1, 2]);
  });

  it('has its payloads for prepare and for apply', async () => {
    await load('called', 3, { type: 'called' });
    await until(async () => (await weights('called')).length === 3);
    expect((await weights('called')).map(({ length }) => length)).toEqual(Array(3).fill(2 * MEGABYTE));
  });
});

describe('?pending=true', () => {
  const read = <T>(key: string, work: (manager: EntityManager) => Promise<T>) =>
    replica.app.nest.get(Pending).read(key, work);

  it('applies only as many pending messages as fit into memory: the first ones', async () => {
    await replica.call('PUT', '/v1/keys/waiting/hold', { body: { reason: 'in creation' } });
    await load('waiting', 12);
    const rows = await read('waiting', (manager) =>
      manager.query(`SELECT n, length FROM weight WHERE key = 'waiting' ORDER BY at`),
    );
    expect(rows).toEqual(Array.from({ length: 8 }, (_, n) => ({ n: n + 1, length: MEGABYTE })));
  });

  it('returns 503 when too many requests wait already', async () => {
    let open: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const asking = Array.from({ length: 67 }, () => read('nobody', () => gate));
    const refused = await Promise.any(
      asking.map((one) =>
        one.then(
          () => Promise.reject(),
          (error) => error,
        ),
      ),
    );
    open();
    expect((refused as Problem).problem).toBe('overloaded');
    expect((refused as Problem).more.headers).toEqual({ 'retry-after': '1' });
    const responses = await Promise.allSettled(asking);
    expect(responses.filter(({ status }) => status === 'rejected')).toHaveLength(1);
  });
});
