import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import type { TestApp } from '../support/app.ts';
import { keyIn, twoCells } from '../support/cells.ts';
import { oneTableReadModel } from '../support/one-table-read-model.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

@Denormalizer({ types: ['test/step'] })
@Injectable()
class Steps {
  async apply({ id, key, payload }: Message<{ n: number }>, tx: ReadModelTransaction): Promise<void> {
    await tx.query('INSERT INTO step (id, key, n) VALUES ($1, $2, $3)', [id, key, payload.n]);
  }
}

const cells = twoCells({ EGRESS_ALLOW: '127.0.0.0/8' });
const { home, b } = cells;
let replicas: readonly [TestApp, TestApp];
let receiver: Receiver;
const KEYS = Array.from({ length: 4 }, (_, nth) => [keyIn('home', nth), keyIn('b', nth)]).flat();
const STEPS = 25;

beforeAll(async () => {
  receiver = await startReceiver();
  const readModels = [
    oneTableReadModel('step (nth bigint GENERATED ALWAYS AS IDENTITY, id text, key text, n int)', [Steps]),
  ];
  replicas = [await cells.start({}, { readModels }), await cells.start({}, { readModels })];
});
afterAll(async () => {
  await receiver.close();
});

const stepsOf = (database: typeof home, key: string) =>
  database.query<{ id: string; n: number }>('SELECT id, n FROM step WHERE key = $1 ORDER BY nth', [key]);

/** Posts until it is stored: a 503 is retried with the same id, by the other replica. */
async function post(key: string, n: number, nth: number): Promise<void> {
  const body = { type: 'test/step', key, id: `${key}-${n}`, payload: { n } };
  await until(async () => {
    nth += 1;
    const { status } = await replicas[nth % 2]!.call('POST', '/v1/messages', { body });
    return status === 202 || status === 200;
  });
}

describe('two replicas', () => {
  it('store, apply and deliver each message once and in order, while a cell is cut off', async () => {
    const body = { types: ['test/step'], url: receiver.url };
    expect((await replicas[0].call('PUT', '/v1/listeners/steps', { body })).status).toBe(201);
    const posted = KEYS.map(async (key) => {
      for (let n = 1; n <= STEPS; n++) await post(key, n, n);
    });
    await until(async () => receiver.received.length > 20);
    await cells.makeAway(replicas[0]);
    await cells.bringBack(replicas[0]);
    await Promise.all(posted);

    const wanted = Array.from({ length: STEPS }, (_, nth) => nth + 1);
    for (const [nth, key] of KEYS.entries()) {
      const database = nth % 2 === 0 ? home : b;
      await until(async () => (await stepsOf(database, key)).length >= STEPS);
      expect((await stepsOf(database, key)).map(({ n }) => n)).toEqual(wanted);
      expect(await stepsOf(database === home ? b : home, key)).toEqual([]);
    }
    const delivered = (key: string) => {
      const own = receiver.received.filter(({ body }) => (body as { key: string }).key === key);
      return [...new Set(own.map(({ body }) => (body as { data: { n: number } }).data.n))];
    };
    for (const key of KEYS) {
      await until(() => delivered(key).length === STEPS);
      expect(delivered(key)).toEqual(wanted);
    }
  });

  it('define for each other, in every cell', async () => {
    const [one, other] = replicas;
    const body = { types: ['test/step'], url: receiver.url };
    expect((await one.call('PUT', '/v1/listeners/later', { body })).status).toBe(201);
    const before = receiver.received.length;
    const message = { type: 'test/step', key: keyIn('b', 9), payload: { n: 0 } };
    expect((await other.call('POST', '/v1/messages', { body: message })).status).toBe(202);
    await until(() => receiver.received.length === before + 2);
  });
});

describe('a home cell that is away', () => {
  it('stops its own keys and what is defined, and nothing else', async () => {
    const [replica] = replicas;
    await cells.makeAway(replica, 'home');
    // The other cell's keeper has noticed that it cannot read the definitions.
    const other = async () => (await replica.call('GET', '/v1/cells')).body.items[1];
    await until(async () => !(await other()).definitionsCurrent);
    expect((await other()).state).toBe('up');
    const step = (key: string) => ({ type: 'test/step', key, payload: { n: 1 } });
    const post = (key: string) => replica.call('POST', '/v1/messages', { body: step(key) });
    expect((await post(keyIn('home', 12))).body).toMatchObject({ status: 503 });
    expect((await post(keyIn('b', 12))).status).toBe(202);
    await until(async () => (await stepsOf(b, keyIn('b', 12))).length === 1);
    const body = { types: ['test/step'], url: receiver.url };
    expect((await replica.call('PUT', '/v1/listeners/never', { body })).status).toBe(503);

    await cells.bringBack(replica, 'home');
    await until(async () => (await post(keyIn('home', 12))).status === 202);
  });
});
