import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable, Module } from '@nestjs/common';
import type { MigrationInterface, QueryRunner } from 'typeorm';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { hasPgBouncer, type PgBouncer, startPgBouncer } from '../support/pgbouncer.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

class Counts1763251300980 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('CREATE TABLE IF NOT EXISTS counted (at bigserial, key text, n int)');
  }
  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE counted');
  }
}

@Denormalizer({ types: ['count'] })
@Injectable()
class Counts {
  async apply({ key, payload, attempt }: Message<{ n: number }>, tx: ReadModelTransaction): Promise<void> {
    await tx.query('INSERT INTO counted (key, n) VALUES ($1, $2)', [key, payload.n]);
    await tx.manager.query('SELECT count(*) FROM counted WHERE key = $1', [key]);
    if (payload.n === 7 && attempt === 1) throw new Error('not at the first go');
  }
}

@Module({ providers: [Counts] })
class CountsModule {}

const COUNTS = { entities: [], migrations: [Counts1763251300980], module: CountsModule };
const SETTINGS = {
  DATABASE_POOLER: 'transaction',
  INBOX_POLL: '50ms',
  OUTBOX_POLL: '50ms',
  INBOX_RETRY_SCHEDULE: '1ms',
  INBOX_BATCH_MESSAGES: '16',
  EGRESS_ALLOW: '127.0.0.0/8',
  SECRETS_KEYS: `test=${Buffer.alloc(32, 1).toString('base64')}`,
};
const KEYS = 10;
const EACH = 20;

/** Clients get another session with each transaction, and there are more of them than sessions. */
(hasPgBouncer() ? describe : describe.skip)('behind PgBouncer in transaction mode', () => {
  let database: TestDatabase;
  let pooler: PgBouncer;
  const replicas: TestApp[] = [];
  let receiver: Receiver;

  beforeAll(async () => {
    database = await createDatabase();
    pooler = await startPgBouncer(database.url, 5);
    const pooled = { ...database, url: pooler.url };
    receiver = await startReceiver();
    for (let n = 0; n < 2; n++) replicas.push(await startApp(pooled, SETTINGS, [COUNTS]));
  });
  afterAll(async () => {
    for (const replica of replicas) await replica.close();
    await receiver.close();
    await pooler.stop();
    await database.drop();
  });

  it('takes, applies and delivers everything, once and in order per key', async () => {
    const body = { types: ['count'], url: receiver.url };
    expect((await replicas[0]!.call('PUT', '/v1/listeners/one', { body })).status).toBe(201);
    const posts = Array.from({ length: EACH }, (_, n) => n).map((n) => {
      const messages = Array.from({ length: KEYS }, (_, key) => ({
        ...{ id: `${key}-${n}`, key: `k-${key}`, type: 'count' },
        payload: { n },
      }));
      return () => replicas[n % 2]!.call('POST', '/v1/messages/batch', { body: { messages } });
    });
    for (const post of posts) expect((await post()).status).toBe(202);
    await until(() => receiver.received.length >= KEYS * EACH, 60_000);
    const inOrder = Array.from({ length: EACH }, (_, n) => n);
    for (let key = 0; key < KEYS; key++) {
      const rows = await database.query<{ n: number }>('SELECT n FROM counted WHERE key = $1 ORDER BY at', [
        `k-${key}`,
      ]);
      expect(rows.map(({ n }) => n)).toEqual(inOrder);
      const told = receiver.received.filter(({ body: { key: of } }) => of === `k-${key}`);
      expect(told.map(({ body: { data } }) => data.n)).toEqual(inOrder);
    }
  });

  it('says nothing of statements or sessions that are not there', () => {
    const events = replicas.flatMap(({ lines }) => lines.map((line) => JSON.parse(line)));
    expect(events.filter(({ event }) => !['inbox.retry', 'nest.warning'].includes(event))).toEqual([]);
  });
});
