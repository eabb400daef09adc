import 'reflect-metadata';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { IsInt } from 'class-validator';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { until } from '../../../test/support/until.ts';
import { loadSettings } from '../../config/settings.ts';
import type { DenormalizerMethods, DenormalizerOptions } from '../../contract/denormalizer.ts';
import type { Message } from '../../contract/message.ts';
import { Refuse } from '../../contract/outcomes.ts';
import type { ReadModelTransaction } from '../../contract/read-model-transaction.ts';
import { Database } from '../../database/database.ts';
import type { ClaimedMessage } from '../inbox-queue.ts';
import { ReadModelTx } from '../processing/read-model-tx.ts';
import {
  type ApplyFailed,
  DenormalizerRunner,
  type PreparationsByMessage,
  type TimeLimit,
} from './denormalizer-runner.ts';
import { Denormalizers } from './denormalizers.ts';

interface Tested extends DenormalizerMethods {
  readonly name: string;
  readonly options?: Partial<DenormalizerOptions>;
}

function effectsOf(...tested: Tested[]): DenormalizerRunner {
  const denormalizers = new Denormalizers(undefined as never);
  denormalizers.use(
    tested.map(({ name, options, ...instance }) => ({
      name,
      options: { types: ['t'], ...options },
      instance,
    })),
  );
  return new DenormalizerRunner(denormalizers);
}

/** `a1`: the first message of key a. */
function rows(...names: string[]): ClaimedMessage[] {
  return names.map((name, index) => {
    const [key, type = 't'] = name.split(':') as [string, string?];
    return {
      id: key,
      key: key[0]!,
      type,
      position: index + 1,
      lane: 0,
      payload: '{}',
      attempt: 1,
    } as ClaimedMessage;
  });
}

const NOTHING_PREPARED: PreparationsByMessage = new Map();

/** Records statements and results; results arrive a turn of the event loop later. */
function wire() {
  const log: string[] = [];
  const query = async (sql: string) => {
    log.push(`>${sql}`);
    await nextTurn();
    log.push(`<${sql}`);
    return [];
  };
  return { log, tx: { query } as unknown as ReadModelTransaction };
}

const twoStatements = async ({ id }: Message, tx: ReadModelTransaction) => {
  await tx.query(`${id}.1`);
  await tx.query(`${id}.2`);
};

describe('the statements of a batch', () => {
  it('of different keys are sent together, those of one key one after the other', async () => {
    const { log, tx } = wire();
    await effectsOf({ name: 'A', apply: twoStatements }).apply(rows('a1', 'b1', 'a2'), tx, NOTHING_PREPARED);
    expect(log.slice(0, 3)).toEqual(['>a1.1', '>b1.1', '<a1.1']);
    expect(log.filter((line) => line[1] === 'a').join(' ')).toBe(
      '>a1.1 <a1.1 >a1.2 <a1.2 >a2.1 <a2.1 >a2.2 <a2.2',
    );
  });

  it('of a sequential denormalizer are sent one at a time, without slowing other keys', async () => {
    const { log, tx } = wire();
    const sequential = { name: 'S', apply: twoStatements, options: { types: ['s'], sequential: true } };
    const effects = effectsOf(sequential, { name: 'A', apply: twoStatements });
    await effects.apply(rows('a1:s', 'b1:s', 'c1:t', 'b2:t'), tx, NOTHING_PREPARED);
    const issued = log.filter((line) => line.startsWith('>'));
    expect(issued).toEqual(['>a1.1', '>c1.1', '>a1.2', '>c1.2', '>b1.1', '>b1.2', '>b2.1', '>b2.2']);
  });

  it('of a message run through its denormalizers in order, before the next message of its key', async () => {
    const { log, tx } = wire();
    const note =
      (name: string) =>
      async ({ id }: Message, to: ReadModelTransaction) =>
        void (await to.query(`${name} ${id}`));
    const effects = effectsOf(
      { name: 'late', apply: note('late'), options: { types: ['new', 'old'], order: 1 } },
      { name: 'new', apply: note('new'), options: { types: ['new'] } },
      { name: 'old', apply: note('old'), options: { types: ['old'] } },
    );
    await effects.apply(rows('a1:old', 'a2:new'), tx, NOTHING_PREPARED);
    const issued = log.filter((line) => line.startsWith('>'));
    expect(issued).toEqual(['>old a1', '>late a1', '>new a2', '>late a2']);
  });

  it('of applyBatch come with all its messages at once, at its place in the order', async () => {
    const { log, tx } = wire();
    const batch = async (messages: readonly Message[], to: ReadModelTransaction) =>
      void (await to.query(`batch ${messages.map(({ id }) => id)}`));
    const single =
      (name: string) =>
      async ({ id }: Message, to: ReadModelTransaction) =>
        void (await to.query(`${name} ${id}`));
    const effects = effectsOf(
      { name: 'before', apply: single('before'), options: { order: 1 } },
      { name: 'batch', applyBatch: batch, options: { order: 2 } },
      { name: 'after', apply: single('after'), options: { order: 3 } },
    );
    await effects.apply(rows('a1', 'b1', 'b2:other'), tx, NOTHING_PREPARED);
    expect(log.filter((line) => line.startsWith('>'))).toEqual([
      '>before a1',
      '>before b1',
      '>batch a1,b1',
      '>after a1',
      '>after b1',
    ]);
  });

  it('get what the same denormalizer prepared for the message', async () => {
    const given: unknown[] = [];
    const apply = async (_message: Message, _tx: ReadModelTransaction, prepared: unknown) =>
      void given.push(prepared);
    const effects = effectsOf({ name: 'A', apply }, { name: 'B', apply });
    const [row] = rows('a1') as [ClaimedMessage];
    const prepared = new Map([[row, { results: new Map([['B', 'for B']]), error: undefined }]]);
    await effects.apply([row], wire().tx, prepared);
    expect(given).toEqual([undefined, 'for B']);
  });
});

describe('the failed message', () => {
  let database: TestDatabase;
  let engine: Database;

  beforeAll(async () => {
    database = await createDatabase({ empty: true });
    engine = new Database(database.url, loadSettings({}), undefined, () => undefined);
  });
  afterAll(async () => {
    await engine.close();
    await database.drop();
  });

  async function failure(
    effects: DenormalizerRunner,
    ...messages: string[]
  ): Promise<[string | undefined, string]> {
    const tried = engine.transaction((tx) =>
      effects.apply(rows(...messages), new ReadModelTx(tx), NOTHING_PREPARED),
    );
    const failed = await tried.then(
      () => undefined,
      (error: ApplyFailed) => error,
    );
    const ids = failed?.failed.map(({ id }) => id).join(' ') || undefined;
    return [ids, (failed?.reason as Error | undefined)?.message ?? 'nobody'];
  }

  const divide: Tested = {
    name: 'divide',
    async apply({ id, key }, tx) {
      await tx.query('SELECT 1');
      await tx.query('SELECT 1 / $1::integer', [key === 'x' ? 0 : 1]);
      await tx.query('SELECT $1::text', [id]);
    },
  };

  it('is the one whose statement broke the transaction, not the others in it', async () => {
    expect(await failure(effectsOf(divide), 'a1', 'b1', 'x1', 'c1', 'c2')).toEqual([
      'x1',
      'division by zero',
    ]);
    expect(await failure(effectsOf(divide), 'x1', 'a1')).toEqual(['x1', 'division by zero']);
    expect(await failure(effectsOf(divide), 'a1', 'b1')).toEqual([undefined, 'nobody']);
  });

  it('is found even if its statement is not awaited', async () => {
    const careless: Tested = {
      name: 'careless',
      async apply({ key }, tx) {
        void tx.query('SELECT 1 / $1::integer', [key === 'x' ? 0 : 1]).catch(() => undefined);
      },
    };
    const tried = engine.transaction((tx) =>
      effectsOf(careless).apply(rows('a1', 'x1'), new ReadModelTx(tx), NOTHING_PREPARED),
    );
    await expect(tried).rejects.toThrow('division by zero');
  });

  it('is known for an invalid payload before anything is sent, and for a thrown error', async () => {
    class Numbered {
      @IsInt() n: number;
    }
    const { log, tx } = wire();
    const strict = effectsOf(
      { name: 'A', apply: twoStatements },
      { name: 'strict', apply: async () => undefined, options: { types: ['s'], payload: Numbered } },
    );
    const refused = strict.apply(rows('a1', 'b1:s', 'c1:s'), tx, NOTHING_PREPARED);
    await expect(refused).rejects.toMatchObject({
      failed: [{ id: 'b1' }, { id: 'c1' }],
      reason: expect.any(Refuse),
    });
    expect(log).toEqual([]);

    const thrower: Tested = {
      name: 'thrower',
      apply: ({ key }) => {
        if (key === 'x' || key === 'y') throw new Error('at once');
        return Promise.resolve();
      },
    };
    expect(await failure(effectsOf(thrower), 'a1', 'x1', 'b1', 'y1')).toEqual(['x1 y1', 'at once']);
  });

  const hang: Tested = {
    name: 'hang',
    async apply({ key }, tx) {
      await tx.query('SELECT 1');
      if (key === 'x' || key === 'y') await new Promise(() => undefined);
    },
  };

  /** In a session that the test controls while the applies hang. */
  async function hung(settings: string, ms = 60_000): Promise<unknown> {
    const tried = engine.transaction(async (tx) => {
      await tx.query(settings);
      const bound: TimeLimit = (work) => tx.withTimeout(ms, work);
      await effectsOf(hang).apply(rows('a1', 'x1', 'x2', 'y1'), new ReadModelTx(tx), NOTHING_PREPARED, bound);
    });
    return tried.catch((error: unknown) => error);
  }

  it('is each one in progress when the server ended an idle session, or when they took too long', async () => {
    const both = { failed: [{ id: 'x1' }, { id: 'y1' }], reason: { name: 'ApplyHung' } };
    expect(await hung('SET LOCAL idle_in_transaction_session_timeout = 200')).toMatchObject(both);
    expect(await hung('SELECT 1', 100)).toMatchObject(both);
  });

  it('is none when the connection breaks while they hang', async () => {
    const failing = hung(`SET application_name = 'to be ended'`);
    await until(async () => {
      const ended = await database.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE application_name = 'to be ended' AND state = 'idle in transaction'`,
      );
      return ended.length > 0;
    });
    expect(await failing).toMatchObject({ code: '57P01' });
  });

  it('is unknown for a batch, except for a batch of one', async () => {
    const batch: Tested = {
      name: 'batch',
      applyBatch: () => {
        throw new Error('not even a promise');
      },
    };
    expect(await failure(effectsOf(batch), 'a1', 'b1')).toEqual([undefined, 'not even a promise']);
    expect(await failure(effectsOf(batch), 'a1')).toEqual(['a1', 'not even a promise']);
  });

  it.each<[fault: string, sent: object]>([
    ['/type must not be empty', { type: '' }],
    ['/type must be a string', { type: undefined }],
    ['/type must not be longer than 200 characters', { type: 't'.repeat(201) }],
    ['/type must not contain control characters', { type: 'a\u0000b' }],
    ['/key must not be empty', { key: '' }],
    ['/key must be a string', { key: 7 }],
    ['/key must not be longer than 256 bytes of UTF-8', { key: 'ü'.repeat(129) }],
    ['/key must not contain half of a surrogate pair', { key: 'a\ud800' }],
    ['/headers/n must be a string', { headers: { n: 1 } }],
    ["/headers/a b a header's name must be 1 to 64 of A-Z a-z 0-9 _ . -", { headers: { 'a b': 'x' } }],
    [
      '/headers must not have more than 16384 bytes of names and values',
      { headers: Object.fromEntries(Array.from({ length: 9 }, (_, n) => [`h${n}`, 'é'.repeat(1_000)])) },
    ],
    ['/dueAt must be an RFC 3339 time, such as 2026-01-31T12:00:00Z', { dueAt: new Date('soon') }],
    ['/type must not be empty; /key must not be empty', { type: '', key: '' }],
  ])('is the one that sends what the API would refuse, awaited or not: %s', async (fault, sent) => {
    for (const isAwaited of [true, false]) {
      const sender: Tested = {
        name: 'sender',
        async apply({ key }, tx) {
          const sending = tx.send({ type: 'u', payload: null, ...(key === 'x' ? sent : {}) });
          if (isAwaited) await sending;
        },
      };
      expect(await failure(effectsOf(sender), 'a1', 'x1', 'b1')).toEqual([
        'x1',
        `a message cannot be sent: ${fault}`,
      ]);
    }
  });

  it('is none when what is sent is at the limit of what the API accepts', async () => {
    const sent = { type: 't'.repeat(200), key: 'ü'.repeat(128), headers: { 'x-1': 'y' }, dueAt: new Date() };
    const sender: Tested = { name: 'sender', apply: (_, tx) => tx.send({ payload: null, ...sent }) };
    expect(await failure(effectsOf(sender), 'a1')).toEqual([undefined, 'nobody']);
  });
});
