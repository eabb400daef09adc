import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import pg from 'pg';
import { twentyPerSecond, warmUp } from '../harness/latency.mjs';
import { Progress } from '../harness/progress.mjs';
import { serveRoute } from '../harness/route.mjs';
import { CREATE_COUNTER, keyOf, payloadOf, UPSERT } from '../harness/workload.mjs';

/** Configured as on its performance page: https://worker.graphile.org/docs/performance */
function preset(url, logger) {
  return {
    worker: {
      connectionString: url,
      concurrentJobs: 24,
      maxPoolSize: 25,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
      ...(logger ? { logger } : {}),
    },
  };
}

export async function setup({ url }) {
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  await pool.query(CREATE_COUNTER);
  await pool.end();
  const utils = await makeWorkerUtils({ connectionString: url });
  await utils.migrate();
  await utils.release();
}

export async function seed({ url, messages }) {
  const utils = await makeWorkerUtils({ connectionString: url });
  for (let from = 0; from < messages; from += 5_000) {
    const specs = Array.from({ length: Math.min(5_000, messages - from) }, (_, index) => ({
      identifier: 'count',
      payload: { key: keyOf(from + index), ...payloadOf(from + index) },
    }));
    await utils.addJobs(specs);
  }
  await utils.withPgClient((client) => client.query('VACUUM ANALYZE'));
  await utils.release();
}

export async function drain({ url, complete, ...counts }) {
  const progress = new Progress(counts);
  const runner = await run({
    preset: preset(url, new Logger(() => () => undefined)),
    taskList: {
      count: async ({ key, text }, helpers) => {
        await helpers.query(UPSERT, [key, text]);
        progress.handled();
      },
    },
  });
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  const remaining = async () =>
    (await pool.query('SELECT count(*)::int AS n FROM graphile_worker._private_jobs')).rows[0].n;
  const result = await progress.over(remaining);
  await runner.stop();
  await pool.end();
  return result;
}

/** A route that adds one job per post. */
export async function serve({ url }) {
  const utils = await makeWorkerUtils({ pgPool: new pg.Pool({ connectionString: url, max: 10 }) });
  return serveRoute(async ({ key, payload }) => {
    const { id } = await utils.addJob('count', { key, ...payload });
    return { id };
  });
}

/** From adding a job to its task, in one process; it is notified of new jobs and does not poll. */
export async function latency({ url, seconds }) {
  const waiting = new Map();
  const runner = await run({
    preset: preset(url, new Logger(() => () => undefined)),
    taskList: { count: ({ n }) => waiting.get(n)?.(performance.now()) },
  });
  const once = async (n) => {
    const startedAt = performance.now();
    const handled = new Promise((resolve) => waiting.set(n, resolve));
    await runner.addJob('count', payloadOf(n));
    return (await handled) - startedAt;
  };
  await warmUp(once);
  const result = await twentyPerSecond(seconds, once);
  await runner.stop();
  return result;
}
