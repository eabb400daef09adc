import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { untilBlocked } from '../../test/support/session.ts';
import { Loops } from '../clock/loops.ts';
import { loadSettings } from '../config/settings.ts';
import { Database } from '../database/database.ts';
import { createLog } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { appendEntries, EntryWriter, TopicsChanged } from './entry-writer.ts';
import { Topics } from './topics.ts';
import { TopicsStore } from './topics-store.ts';

let on: TestDatabase;
let database: Database;

beforeAll(async () => {
  on = await createDatabase();
  database = new Database(on.url, loadSettings({}), undefined, () => undefined);
  await on.query(`INSERT INTO topic_partition (topic, partition) SELECT topic, partition
                  FROM generate_series(1, 9) AS topic, generate_series(0, 3) AS partition`);
  await on.query('ALTER TABLE topic ALTER COLUMN number RESTART WITH 1000');
});
afterAll(async () => {
  await database.close();
  await on.drop();
});

const entry = (topic: number, partition: number, position: number) => ({
  topic,
  partition,
  position,
  bytes: 1,
});

/** An append that stays uncommitted until `end` is called with how it ends. */
function openAppend(entries: ReturnType<typeof entry>[]) {
  let end: (how: 'commit' | 'roll back') => void = () => undefined;
  const ending = new Promise<'commit' | 'roll back'>((resolve) => {
    end = resolve;
  });
  let written: () => void = () => undefined;
  const appended = new Promise<void>((resolve) => {
    written = resolve;
  });
  const done = database
    .transaction(async (tx) => {
      await Promise.all(appendEntries(entries, tx));
      written();
      if ((await ending) === 'roll back') throw new Error('rolled back');
    })
    .catch((error: Error) => error.message);
  return { appended, done, end };
}

async function offsetsOf(topic: number): Promise<[partition: number, offset: number, message: number][]> {
  const rows = await on.query<{ partition: number; offset: number; message: number }>(
    'SELECT partition, "offset", message FROM topic_entry WHERE topic = $1 ORDER BY partition, "offset"',
    [topic],
  );
  return rows.map(({ partition, offset, message }) => [partition, Number(offset), Number(message)]);
}

describe('entries of a partition', () => {
  it('are numbered without gaps, in the order of the batch', async () => {
    const entries = [entry(1, 0, 10), entry(1, 1, 11), entry(1, 0, 12), entry(2, 0, 12)];
    await database.transaction(async (tx) => void (await Promise.all(appendEntries(entries, tx))));
    await database.transaction(async (tx) => void (await Promise.all(appendEntries([entry(1, 0, 13)], tx))));
    expect(await offsetsOf(1)).toEqual([
      [0, 0, 10],
      [0, 1, 12],
      [0, 2, 13],
      [1, 0, 11],
    ]);
    expect(await offsetsOf(2)).toEqual([[0, 0, 12]]);
  });

  it('B1: become visible in order: a later writer waits for the commit of an earlier one', async () => {
    const first = openAppend([entry(3, 0, 20)]);
    await first.appended;
    const second = openAppend([entry(3, 0, 21)]);
    second.end('commit');
    await untilBlocked(on);
    expect(await offsetsOf(3)).toEqual([]);
    first.end('commit');
    await Promise.all([first.done, second.done]);
    expect(await offsetsOf(3)).toEqual([
      [0, 0, 20],
      [0, 1, 21],
    ]);
  });

  it('leave no hole when a writer rolls back', async () => {
    const first = openAppend([entry(4, 0, 30)]);
    await first.appended;
    const second = openAppend([entry(4, 0, 31)]);
    second.end('commit');
    await untilBlocked(on);
    first.end('roll back');
    expect(await Promise.all([first.done, second.done])).toEqual(['rolled back', undefined]);
    expect(await offsetsOf(4)).toEqual([[0, 0, 31]]);
  });

  it('of several partitions are locked in one order: writers never deadlock', async () => {
    const places = [5, 6, 7, 8, 9].flatMap((topic) =>
      [0, 1, 2, 3].map((partition) => entry(topic, partition, 40)),
    );
    const writers = Array.from({ length: 300 }, (_, n) => {
      const some = places.filter((_place, index) => (n * 7 + index * (n % 11)) % 3 > 0);
      return database.transaction(async (tx) => void (await Promise.all(appendEntries(some, tx))));
    });
    await Promise.all(writers);
    for (const topic of [5, 6, 7, 8, 9]) {
      const offsets = (await offsetsOf(topic))
        .filter(([partition]) => partition === 0)
        .map(([, offset]) => offset);
      expect(offsets).toEqual(offsets.map((_, n) => n));
    }
  });

  it('are not written to a topic that was deleted', async () => {
    await database.transaction(async (tx) => void (await Promise.all(appendEntries([entry(99, 0, 50)], tx))));
    expect(await offsetsOf(99)).toEqual([]);
  });
});

describe('a message that is applied while a topic is created', () => {
  const message = { position: 60, lane: 0, type: 'orders', payload: '{}', headers: null };

  /** The topics of one replica, and a topic that another one creates. */
  async function replica() {
    const store = new TopicsStore(database);
    const log = createLog(loadSettings({}), { write: () => undefined });
    const topics = new Topics(store, new Loops({ roles: [] }, log, new Metrics()));
    await topics.refresh();
    const create = (name: string) => {
      const topic = { name, partitions: 1, types: ['orders'], retention_ms: null } as const;
      return database.transaction((tx) =>
        store.insert({ ...topic, kind: 'topic', origin: 'api' }, 'test', tx),
      );
    };
    return { topics, create };
  }

  const write = (writer: EntryWriter) =>
    database.transaction(async (tx) => void (await Promise.all(writer.write(tx))));

  it('is appended to it, also if the replica reads the topic while it applies the message', async () => {
    const { topics, create } = await replica();
    const writer = new EntryWriter([message], topics);
    const { number } = await create('orders');
    await topics.refresh();
    await write(writer);
    expect(await offsetsOf(number)).toEqual([[0, 0, 60]]);
    expect(writer.partitionIds.size).toBe(1);
  });

  it('is not committed without it by a replica that has not read the topic', async () => {
    const { topics, create } = await replica();
    const { number } = await create('orders-2');
    await expect(write(new EntryWriter([message], topics))).rejects.toBeInstanceOf(TopicsChanged);
    expect(await offsetsOf(number)).toEqual([]);
  });
});
