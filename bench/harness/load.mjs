import { Pool } from 'undici';
import { keyOf, TEXT, TYPE } from './workload.mjs';

const WARM_POSTS = 5_000;

/** Posts over keep-alive connections, each waiting for its answer; counts after a warm-up. `batch`: so many at a time. */
export async function load({ url, connections, warmUpSeconds, seconds, batch }) {
  const { origin, pathname } = new URL(url);
  const pool = new Pool(origin, { connections, pipelining: 1 });
  let index = 0;
  let answered = 0;
  let failed = 0;
  let counting = false;
  let over = false;
  const message = () => ({ type: TYPE, key: keyOf(index), payload: { n: index++, text: TEXT } });
  const one = async () => {
    while (!over) {
      const posted = batch ? { messages: Array.from({ length: batch }, message) } : message();
      const body = JSON.stringify(posted);
      const headers = { 'content-type': 'application/json' };
      const answer = await pool.request({ path: pathname, method: 'POST', headers, body });
      await answer.body.dump();
      if (!counting) continue;
      if (answer.statusCode === 202) answered += batch ?? 1;
      else failed += 1;
    }
  };
  const work = Array.from({ length: connections }, one);
  await sleep(warmUpSeconds);
  // On a busy machine that is not enough to be compiled.
  for (let more = 0; more < 10 && index < WARM_POSTS; more++) await sleep(1);
  process.send({ warm: true });
  counting = true;
  const started = performance.now();
  const cpu = process.cpuUsage();
  await sleep(seconds);
  counting = false;
  const took = (performance.now() - started) / 1000;
  const used = process.cpuUsage(cpu);
  const loadCpu = (used.user + used.system) / 1e6;
  process.send({ over: true });
  over = true;
  await Promise.all(work);
  await pool.close();
  if (failed) throw new Error(`${failed} posts were not answered with 202`);
  return { messages: answered, seconds: took, loadCpu };
}

function sleep(seconds) {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}
