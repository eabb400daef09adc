import { DataSource, EntitySchema } from 'typeorm';
import { Progress } from '../harness/progress.mjs';
import { serveRoute } from '../harness/route.mjs';
import { CREATE_COUNTER, keyOf, payloadOf, TYPE } from '../harness/workload.mjs';

const Job = new EntitySchema({
  name: 'job',
  columns: {
    position: { type: 'bigint', primary: true, generated: 'increment' },
    type: { type: 'text' },
    key: { type: 'text' },
    payload: { type: 'jsonb' },
    status: { type: 'text', default: 'pending' },
  },
  indices: [{ columns: ['status', 'position'] }],
});

const Counter = new EntitySchema({
  name: 'counter',
  columns: { key: { type: 'text', primary: true }, n: { type: 'integer' }, last: { type: 'text' } },
});

async function connect(url) {
  const source = new DataSource({ type: 'postgres', url, entities: [Job, Counter], extra: { max: 10 } });
  return source.initialize();
}

export async function setup({ url }) {
  const source = await connect(url);
  await source.query(CREATE_COUNTER);
  await source.query(`CREATE TABLE job (position bigserial PRIMARY KEY, type text NOT NULL, key text NOT NULL,
    payload jsonb NOT NULL, status text NOT NULL DEFAULT 'pending')`);
  await source.query('CREATE INDEX job_status ON job (status, position)');
  await source.destroy();
}

export async function seed({ url, messages }) {
  const source = await connect(url);
  const jobs = source.getRepository(Job);
  for (let from = 0; from < messages; from += 1_000) {
    const rows = Array.from({ length: Math.min(1_000, messages - from) }, (_, index) => ({
      type: TYPE,
      key: keyOf(from + index),
      payload: payloadOf(from + index),
    }));
    await jobs.insert(rows);
  }
  await source.query('VACUUM ANALYZE');
  await source.destroy();
}

/** The usual first approach: one transaction per message through entities, ten at a time. */
export async function drain({ url, complete, ...counts }) {
  const progress = new Progress(counts);
  const source = await connect(url);
  const one = () =>
    source.transaction(async (manager) => {
      const job = await manager
        .createQueryBuilder(Job, 'job')
        .where('job.status = :status', { status: 'pending' })
        .orderBy('job.position')
        .limit(1)
        .setLock('pessimistic_write')
        .setOnLocked('skip_locked')
        .getOne();
      if (!job) return false;
      const counter = await manager.findOneBy(Counter, { key: job.key });
      await manager.save(Counter, { key: job.key, n: (counter?.n ?? 0) + 1, last: job.payload.text });
      job.status = 'finished';
      await manager.save(Job, job);
      return true;
    });
  const work = async () => {
    // Two at once on a new key: one of them fails and is retried.
    while (await one().catch(() => true)) progress.handled();
  };
  await Promise.all(Array.from({ length: 10 }, work));
  const result = await progress.over();
  await source.destroy();
  return result;
}

/** A route that saves one entity per post. */
export async function serve({ url }) {
  const source = await connect(url);
  const jobs = source.getRepository(Job);
  return serveRoute(async ({ type, key, payload }) => {
    const { position } = await jobs.save({ type, key, payload });
    return { id: position };
  });
}
