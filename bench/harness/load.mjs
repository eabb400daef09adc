import { LightClient } from './light-client.mjs';
import { keyOf, TEXT, TYPE } from './workload.mjs';

const WARM_POSTS = 5_000;

/** Posts over keep-alive connections, each waiting for its response; counts after a warm-up. `batch`: messages per request. */
export async function load({ url, connections, warmUpSeconds, seconds, batch }) {
  let index = 0;
  let responded = 0;
  let failed = 0;
  let counting = false;
  let over = false;
  const message = () => ({ type: TYPE, key: keyOf(index), payload: { n: index++, text: TEXT } });
  const one = async () => {
    const client = new LightClient(url);
    while (!over) {
      const posted = batch ? { messages: Array.from({ length: batch }, message) } : message();
      const status = await client.post(JSON.stringify(posted));
      if (!counting) continue;
      if (status === 202) responded += batch ?? 1;
      else failed += 1;
    }
    client.close();
  };
  const work = Array.from({ length: connections }, one);
  await sleep(warmUpSeconds);
  // On a busy machine the warm-up may be too short for the code to be compiled.
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
  if (failed) throw new Error(`${failed} posts did not return 202`);
  return { messages: responded, seconds: took, loadCpu };
}

function sleep(seconds) {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}
