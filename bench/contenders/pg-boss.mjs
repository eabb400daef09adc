import pg from 'pg';
import { PgBoss } from 'pg-boss';
import { twentyPerSecond, warmUp } from '../harness/latency.mjs';
import { Progress } from '../harness/progress.mjs';
import { serveRoute } from '../harness/route.mjs';
import { CREATE_COUNTER, keyOf, payloadOf, UPSERT } from '../harness/workload.mjs';

export const QUEUE = 'count';
const BATCH = 500;

export async function start(url) {
  const boss = new PgBoss({ connectionString: url, max: 10, supervise: false, schedule: false });
  boss.on('error', (error) => process.stderr.write(`pg-boss: ${error.message}\n`));
  await boss.start();
  return boss;
}

export async function setup({ url }) {
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  await pool.query(CREATE_COUNTER);
  await pool.end();
  const boss = await start(url);
  await boss.createQueue(QUEUE);
  await boss.stop();
}

export async function seed({ url, messages }) {
  const boss = await start(url);
  for (let from = 0; from < messages; from += 5_000) {
    const jobs = Array.from({ length: Math.min(5_000, messages - from) }, (_, index) => ({
      data: { key: keyOf(from + index), ...payloadOf(from + index) },
    }));
    await boss.insert(QUEUE, jobs);
  }
  await boss.stop();
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  await pool.query('VACUUM ANALYZE');
  await pool.end();
}

/** Fetched and completed in batches of 500, two batches at a time; the upserts of a batch ten at a time. */
export async function drain({ url, complete, ...counts }) {
  const progress = new Progress(counts);
  const boss = await start(url);
  const pool = new pg.Pool({ connectionString: url, max: 10 });
  const work = async () => {
    for (;;) {
      const jobs = await boss.fetch(QUEUE, { batchSize: BATCH });
      if (jobs.length === 0) return;
      await Promise.all(jobs.map(({ data }) => pool.query(UPSERT, [data.key, data.text])));
      await boss.complete(
        QUEUE,
        jobs.map(({ id }) => id),
      );
      progress.handled(jobs.length);
    }
  };
  await Promise.all([work(), work()]);
  const result = await progress.over();
  await boss.stop({ graceful: false });
  await pool.end();
  return result;
}

/** A route that sends one job per post. */
export async function serve({ url }) {
  const boss = await start(url);
  return serveRoute(async ({ key, payload }) => ({ id: await boss.send(QUEUE, { key, ...payload }) }));
}

/** From sending a job to its handler, in one process; polls at its shortest interval. */
export async function latency({ url, seconds }) {
  const waiting = new Map();
  const boss = await start(url);
  await boss.work(QUEUE, { pollingIntervalSeconds: 0.5, batchSize: 100 }, async (jobs) => {
    for (const { data } of jobs) waiting.get(data.n)?.(performance.now());
  });
  const once = async (n) => {
    const startedAt = performance.now();
    const handled = new Promise((resolve) => waiting.set(n, resolve));
    await boss.send(QUEUE, payloadOf(n));
    return (await handled) - startedAt;
  };
  await warmUp(once);
  const result = await twentyPerSecond(seconds, once);
  await boss.stop({ graceful: false });
  return result;
}
