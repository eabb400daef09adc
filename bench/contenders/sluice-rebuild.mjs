import 'reflect-metadata';
import { setTimeout as delay } from 'node:timers/promises';
import { Module } from '@nestjs/common';
import pg from 'pg';
import { service } from '../harness/paths.mjs';
import { Progress } from '../harness/progress.mjs';
import { CREATE_COUNTER, KEYS, TEXT, TYPE, UPSERT, UPSERT_ALL } from '../harness/workload.mjs';

/** Messages of one transaction of the inbox, which have the same number of application. */
const PER_NUMBER = 300;

export async function setup({ url }) {
  const [{ migrate }, { schemaOf }] = await Promise.all([
    service('database/migrate.js'),
    service('schema.js'),
  ]);
  await migrate(url, await settings({}), schemaOf([await readModel()]));
}

/**
 * `finished`: messages that are applied already; `archived`: they are in history. `pending`: a backlog. `keys`: how many
 * keys they have. `rows`: of the living read model, besides those of the messages.
 */
export async function seed({ url, finished = 0, archived = false, pending = 0, keys = KEYS, rows = 0 }) {
  const { laneOf } = await service('lanes/lane-of.js');
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  const names = Array.from({ length: keys }, (_, index) => `key-${index}`);
  const insert = (count, prefix, state) =>
    pool.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, status, attempt, settled_at, applied)
       SELECT '${prefix}-' || i, 'bench', $3, name, lane,
              json_build_object('n', i, 'text', '${TEXT}'), ${state} FROM generate_series(1, ${count}) AS i
       JOIN unnest($1::text[], $2::int[]) WITH ORDINALITY AS key(name, lane, nth) ON nth = 1 + i % ${keys} ORDER BY i`,
      [names, names.map((key) => laneOf(key, 256)), TYPE],
    );
  if (finished) await insert(finished, 'f', `'finished', 1, now(), 1 + i / ${PER_NUMBER}`);
  if (pending) await insert(pending, 'p', `'pending', 0, NULL, NULL`);
  await pool.query(`SELECT setval('inbox_applied_seq', $1)`, [2 + Math.ceil(finished / PER_NUMBER)]);
  if (rows)
    await pool.query(
      `INSERT INTO counter.counter SELECT 'row-' || i, 1, '${TEXT}' FROM generate_series(1, ${rows}) AS i`,
    );
  if (archived) await archive(url, pool);
  await pool.query('VACUUM ANALYZE');
  await pool.end();
}

/** In the steps of retention. */
async function archive(url, pool) {
  const app = await start(url, { ROLES: 'upkeep', HISTORY: '*=forever' });
  const [{ Archive }, { Database }, { HistoryUpkeep }] = await Promise.all(
    ['history/archive.js', 'database/database.js', 'history/history-upkeep.js'].map(service),
  );
  const { rows } = await pool.query(
    'SELECT position FROM inbox WHERE settled_at IS NOT NULL ORDER BY position',
  );
  const positions = rows.map(({ position }) => Number(position));
  for (let from = 0; from < positions.length; from += 2_000) {
    const part = positions.slice(from, from + 2_000);
    await app.nest.get(Database).transaction((tx) => app.nest.get(Archive).move(part, tx));
  }
  await app.nest.get(HistoryUpkeep).run();
  await app.close();
}

/** `mode`: `live` processes the backlog, `rebuild` what is finished, `beside` the backlog while a rebuild runs. */
export async function drain({ url, mode, sets = false, env = {}, ...counts }) {
  const progress = new Progress(counts);
  const onHandled = (inRebuild) => {
    if (inRebuild === (mode === 'rebuild')) progress.handled();
  };
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const app = await start(url, { ROLES: 'inbox', ...env }, onHandled, sets);
  if (mode !== 'live') await startRebuild(app, { dryRun: true });
  const remaining = async () => {
    const { rows } = await client.query(mode === 'rebuild' ? LEFT : WAITING);
    return rows[0].n;
  };
  const result = await progress.over(remaining);
  await client.end();
  await Promise.race([app.close(), delay(10_000)]);
  return result;
}

const LEFT = `SELECT (total - (SELECT sum(done) FROM rebuild_lane))::int AS n FROM rebuild`;
const WAITING = 'SELECT count(*)::int AS n FROM inbox WHERE settled_at IS NULL AND waits IS NULL';

/**
 * Switches and rolls back, in turn, while messages are applied; returns the pauses in milliseconds: from before the transaction of
 * the switch until its COMMIT is confirmed.
 */
export async function switches({ url, count, env = {} }) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const app = await start(url, { ROLES: 'inbox', ...env });
  const pauses = await timedSwitches(app);
  const { store, counter } = await startRebuild(app, { dryRun: false });
  const posting = postSteadily(url);
  for (let n = 0; n < count; n++) {
    const wanted = n % 2 === 0 ? 'switched' : 'rolled-back';
    if (n > 0) await store.control(counter, n % 2 === 0 ? 'switch' : 'rollback', 'bench');
    for (;;) {
      const { rows } = await client.query('SELECT status FROM rebuild');
      if (rows[0].status === 'failed') throw new Error('the rebuild failed');
      if (rows[0].status === wanted && pauses.length > n) break;
      await delay(20);
    }
  }
  await posting.stop();
  await client.end();
  await Promise.race([app.close(), delay(10_000)]);
  return pauses;
}

/** How long each switch of this app takes, with its COMMIT; those that have to wait are not in it. */
async function timedSwitches(app) {
  const { Switch } = await service('rebuild/switch.js');
  const switching = app.nest.get(Switch);
  const run = switching.run.bind(switching);
  const pauses = [];
  switching.run = async (...values) => {
    const startedAt = performance.now();
    const pauseMs = await run(...values);
    if (pauseMs !== undefined) pauses.push(Math.ceil(performance.now() - startedAt));
    return pauseMs;
  };
  return pauses;
}

/** About a thousand messages per second. */
function postSteadily(url) {
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  let over = false;
  const post = async () => {
    for (let n = 0; !over; n++) {
      await pool.query(
        `INSERT INTO inbox (id, source, type, key, lane, payload)
         SELECT $1 || '-' || i, 'bench', $2, 'posted-' || i, i % 256, '{"text":"x"}' FROM generate_series(1, 20) AS i`,
        [`s-${n}`, TYPE],
      );
      await delay(20);
    }
  };
  const posted = post();
  return {
    async stop() {
      over = true;
      await posted;
      await pool.end();
    },
  };
}

async function startRebuild(app, options) {
  const [{ RebuildStore }, { ReadModelRegistry }, { Rebuilds }] = await Promise.all(
    ['rebuild/rebuild-store.js', 'rebuild/read-model-registry.js', 'rebuild/rebuilds.js'].map(service),
  );
  const store = app.nest.get(RebuildStore);
  const all = { recordFailures: false, acceptFailures: false, partial: true, ...options };
  const counter = app.nest.get(ReadModelRegistry).find('counter');
  await store.start(counter, all, 'bench');
  app.nest.get(Rebuilds).wake();
  return { store, counter };
}

async function start(url, env, onHandled, sets) {
  const { createApp } = await service('app.js');
  const { createLog } = await service('telemetry/logger.js');
  const log = createLog({ logLevel: env.LOG_LEVEL ?? 'warn', logFormat: 'json' });
  return createApp(url, await settings(env), log, [await readModel(onHandled, sets)]);
}

async function settings(env) {
  const { loadSettings } = await service('config/settings.js');
  return loadSettings({ PORT: '0', HOST: '127.0.0.1', ...env });
}

/** A counter per key, in a schema of its own. Finished messages have ids with f. */
async function readModel(onHandled = () => undefined, sets = false) {
  const { Denormalizer } = await service('contract/denormalizer.js');
  const handled = ({ id }) => onHandled(id.startsWith('f'));
  class Counter {
    async apply(message, tx) {
      await tx.query(UPSERT, [message.key, message.payload.text]);
      handled(message);
    }
  }
  class CounterOfSets {
    async applyBatch(messages, tx) {
      const keys = messages.map(({ key }) => key);
      await tx.query(UPSERT_ALL, [keys, messages.map(({ payload }) => payload.text)]);
      for (const message of messages) handled(message);
    }
  }
  const Counting = sets ? CounterOfSets : Counter;
  Denormalizer({ types: [TYPE] })(Counting);
  class CounterModule {}
  Module({ providers: [Counting] })(CounterModule);
  class Counter1763251300900 {
    up = (runner) => runner.query(CREATE_COUNTER);
    down = (runner) => runner.query('DROP TABLE counter');
  }
  return { name: 'counter', entities: [], migrations: [Counter1763251300900], module: CounterModule };
}
