import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { LightClient } from './light-client.mjs';
import { keyOf, TEXT, TYPE } from './workload.mjs';

/** Posts a number of messages, and waits until all of them are processed, in whichever of the databases they are. */
export async function postUntilSettled({ url, databases, connections, warmUp, messages }) {
  const pools = databases.map((connectionString) => new pg.Pool({ connectionString, max: 1 }));
  let index = 0;
  const post = async (until) => {
    const client = new LightClient(url);
    while (index < until) {
      const n = index++;
      const status = await client.post(
        JSON.stringify({ type: TYPE, key: keyOf(n), payload: { n, text: TEXT } }),
      );
      if (status !== 202) throw new Error(`a post returned ${status}`);
    }
    client.close();
  };
  const until = async (count) => {
    await Promise.all(Array.from({ length: connections }, () => post(count)));
    while ((await countOf(pools)) < count) await delay(50);
  };
  await until(warmUp);
  const before = await sharesOf(pools);
  process.send({ warm: true });
  const startedAt = performance.now();
  await until(warmUp + messages);
  const seconds = (performance.now() - startedAt) / 1_000;
  process.send({ over: true });
  const shares = (await sharesOf(pools)).map((count, at) => count - before[at]);
  await Promise.all(pools.map((pool) => pool.end()));
  return { messages, seconds, shares };
}

async function countOf(pools) {
  return (await sharesOf(pools)).reduce((sum, count) => sum + count, 0);
}

/** Processed messages of each database: a row of the counter has the number of those with its key. */
function sharesOf(pools) {
  return Promise.all(
    pools.map(
      async (pool) => (await pool.query('SELECT coalesce(sum(n), 0)::int AS n FROM counter')).rows[0].n,
    ),
  );
}
