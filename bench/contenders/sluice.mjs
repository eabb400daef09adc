import 'reflect-metadata';
import { setTimeout as delay } from 'node:timers/promises';
import { Module } from '@nestjs/common';
import pg from 'pg';
import { insertFinished } from '../harness/finished-messages.mjs';
import { service } from '../harness/paths.mjs';
import { Progress } from '../harness/progress.mjs';
import { countCpu, deferred } from '../harness/route.mjs';
import {
  CREATE_COUNTER,
  KEYS,
  keyOf,
  POLLED_TYPE,
  PULLED_TYPE,
  TEXT,
  TYPE,
  UPSERT,
  UPSERT_ALL,
} from '../harness/workload.mjs';

const SLOW_TYPE = 'urn:bench:slow';

/** Two listeners, so two deliveries per message; nothing is sent, because the outbox role is off. */
export async function setup({ url }) {
  const { migrate } = await service('database/migrate.js');
  const { schemaOf } = await service('schema.js');
  await migrate(url, await settings({}), schemaOf([readModel(() => undefined)]));
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(CREATE_COUNTER);
  await client.end();
  const app = await start(url, { ROLES: 'upkeep' }, () => undefined);
  const { ListenerChanges } = await service('listeners/listener-changes.js');
  for (const name of ['first', 'second']) {
    await app.nest.get(ListenerChanges).put(name, { types: [TYPE], url: 'http://127.0.0.1:9/' }, 'bench');
  }
  await app.close();
}

/**
 * Rows as the ingest would have left them. `hot`: this share of all messages has one key; `cooled`: and is already finished.
 * `behind`: number of messages behind a dead letter's hold. `slow`: number of messages with a hanging external call. `history`:
 * number of finished messages in the table. `groups`: number of groups that read the topic of all messages; 0: no topic.
 */
export async function seed({
  url,
  messages,
  hot = 0,
  cooled = false,
  behind = 0,
  slow = 0,
  history = 0,
  groups = 0,
}) {
  if (groups) await createTopic(url, groups);
  const { laneOf } = await service('lanes/lane-of.js');
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  const keys = Array.from({ length: KEYS }, (_, index) => keyOf(index));
  const lanes = keys.map((key) => laneOf(key, 256));
  const payload = `json_build_object('n', i, 'text', '${TEXT}')`;
  const columns = '(id, source, type, key, lane, payload)';
  if (history) {
    await pool.query('ALTER TABLE inbox SET (autovacuum_enabled = off)');
    await insertFinished(pool, history, 'h');
  }
  if (behind) {
    const lane = laneOf('poisoned', 256);
    await pool.query(
      `INSERT INTO hold (queue, key, lane, until, reason) VALUES ('inbox', 'poisoned', $1, 'infinity', 'dead-letter')`,
      [lane],
    );
    await pool.query(
      `INSERT INTO inbox ${columns} SELECT 'b-' || i, 'bench', $2, 'poisoned', $1, ${payload}
       FROM generate_series(1, ${behind}) AS i`,
      [lane, TYPE],
    );
  }
  for (let n = 0; n < slow; n++) {
    const key = `slow-${n}`;
    await pool.query(`INSERT INTO inbox ${columns} VALUES ($1, 'bench', $2, $1, $3, '{}')`, [
      key,
      SLOW_TYPE,
      laneOf(key, 256),
    ]);
  }
  const all = Math.round(messages / (1 - hot));
  const every = hot ? Math.round(1 / (1 - hot)) : 1;
  const isHot = `i % ${every} <> 0`;
  const isOver = cooled ? isHot : 'false';
  await pool.query(
    `INSERT INTO inbox (id, source, type, key, lane, payload, status, attempt, settled_at)
     SELECT 'm-' || i, 'bench', $3,
            CASE WHEN ${isHot} THEN 'hot' ELSE ($1::text[])[1 + (i / ${every}) % ${KEYS}] END,
            CASE WHEN ${isHot} THEN $4::int ELSE ($2::int[])[1 + (i / ${every}) % ${KEYS}] END, ${payload},
            CASE WHEN ${isOver} THEN 'finished' ELSE 'pending' END, CASE WHEN ${isOver} THEN 1 ELSE 0 END,
            CASE WHEN ${isOver} THEN now() END
     FROM generate_series(1, ${all}) AS i`,
    [keys, lanes, TYPE, laneOf('hot', 256)],
  );
  if (history) await pool.query('ALTER TABLE inbox RESET (autovacuum_enabled)');
  await pool.query('VACUUM ANALYZE');
  await pool.end();
}

async function createTopic(url, groups) {
  const app = await start(url, { ROLES: 'upkeep' }, () => undefined);
  const [{ TopicChanges }, { GroupChanges }] = await Promise.all([
    service('topics/topic-changes.js'),
    service('groups/group-changes.js'),
  ]);
  await app.nest.get(TopicChanges).put('bench', { types: [TYPE] }, 'bench');
  for (let n = 0; n < groups; n++)
    await app.nest.get(GroupChanges).put(`group-${n}`, { topics: ['bench'] }, 'bench');
  await app.close();
}

/** Processes the backlog; messages of the hot key are processed, but not counted. `sets`: the denormalizer has `applyBatch`. */
export async function drain({ url, env = {}, complete = true, sets = false, ...counts }) {
  const progress = new Progress(counts);
  const onHandled = (message) => {
    if (message.key !== 'hot') progress.handled();
  };
  const app = await start(url, { ROLES: 'inbox', ...env }, onHandled, sets);
  const result = await progress.over(complete ? () => countWaiting(url) : undefined);
  await Promise.race([app.close(), delay(complete ? 10_000 : 500)]);
  return result;
}

/** Processes the backlog together with other replicas, from `go` to `stop`; reports its count on `count`. Returns the number of pending messages. */
export async function drainUntilStopped({ url, env = {} }) {
  let messages = 0;
  const onHandled = () => {
    messages += 1;
  };
  const words = { go: deferred(), stop: deferred() };
  process.on('message', (word) => {
    words[word]?.resolve();
    if (word !== 'count') return;
    const { user, system } = process.cpuUsage();
    process.send({ counted: { messages, nodeCpu: (user + system) / 1e6 } });
  });
  await service('app.js');
  process.send({ loaded: true });
  await words.go.promise;
  const app = await start(url, { ROLES: 'inbox', ...env }, onHandled);
  process.send({ started: true });
  await words.stop.promise;
  const waiting = await countWaiting(url);
  await Promise.race([app.close(), delay(2_000)]);
  return waiting;
}

/** One replica that serves HTTP until it receives `stop`. */
export async function serve({ url, env = {} }) {
  const app = await start(url, { ROLES: 'api', ...env }, () => undefined);
  const result = await countCpu(`${await app.listen()}/v1/messages`);
  await app.close();
  return result;
}

async function countWaiting(url) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const sql = 'SELECT count(*)::int AS n FROM inbox WHERE settled_at IS NULL AND waits IS NULL';
  const { rows } = await client.query(sql);
  await client.end();
  return rows[0].n;
}

async function start(url, env, onHandled, sets = false) {
  const { createApp } = await service('app.js');
  const { createLog } = await service('telemetry/logger.js');
  const log = createLog({ logLevel: env.LOG_LEVEL ?? 'warn', logFormat: 'json' });
  return createApp(url, await settings(env), log, [readModel(onHandled, await denormalizer(), sets)]);
}

async function settings(env) {
  const { loadSettings } = await service('config/settings.js');
  return loadSettings({ PORT: '0', HOST: '127.0.0.1', SECRETS_KEYS: SECRETS, ...env });
}

/** Not a secret: the same for all processes of a run. */
const SECRETS = `bench=${Buffer.alloc(32, 7).toString('base64')}`;

async function denormalizer() {
  const { Denormalizer } = await service('contract/denormalizer.js');
  return Denormalizer;
}

/** As a read-model author would write it, without decorators because this is plain JavaScript. */
function readModel(onHandled, Denormalizer, sets = false) {
  class Counter {
    async apply(message, tx) {
      await tx.query(UPSERT, [message.key, message.payload.text]);
      onHandled(message);
    }
  }
  class CounterOfSets {
    async applyBatch(messages, tx) {
      await tx.query(UPSERT_ALL, [
        messages.map(({ key }) => key),
        messages.map(({ payload }) => payload.text),
      ]);
      for (const message of messages) onHandled(message);
    }
  }
  class Slow {
    prepare() {
      return delay(60_000);
    }
    async apply() {}
  }
  const Counting = sets ? CounterOfSets : Counter;
  Denormalizer?.({ types: [TYPE, POLLED_TYPE, PULLED_TYPE] })(Counting);
  Denormalizer?.({ types: [SLOW_TYPE] })(Slow);
  class CounterModule {}
  Module({ providers: Denormalizer ? [Counting, Slow] : [] })(CounterModule);
  return { name: 'counter', entities: [], migrations: [], module: CounterModule };
}
