import { setTimeout as delay } from 'node:timers/promises';
import { LightClient } from './light-client.mjs';

export const CANDIDATES = 10_000;
const READERS = 32;
const POSTS_PER_SECOND = 100;
const TYPE = 'urn:ekp:events/candidate-applied';

/** Reads rows of a read model as fast as they come, while others are posted at a steady rate. `standbys`: how many must be in use. */
export async function readAndPost({ url, standbys, warmUpSeconds, seconds }) {
  while ((await usedStandbys(url)) < standbys) await delay(100);
  let reads = 0;
  let posts = 0;
  let over = false;
  const read = async (_, reader) => {
    const client = new LightClient(url);
    for (let n = reader; !over; n += READERS) {
      await client.call('GET', `/v1/candidates/c-${1 + (n % CANDIDATES)}`);
      reads += 1;
    }
    client.close();
  };
  const post = async () => {
    const client = new LightClient(url);
    for (let n = 0; !over; n++) {
      const candidateId = `p-${n}`;
      const payload = { candidateId, name: 'Grace' };
      const pause = delay(1_000 / POSTS_PER_SECOND);
      await client.call('POST', '/v1/messages', { type: TYPE, key: candidateId, payload });
      posts += 1;
      await pause;
    }
    client.close();
  };
  const work = [post(), ...Array.from({ length: READERS }, read)];
  await delay(warmUpSeconds * 1_000);
  process.send({ warm: true });
  const before = { reads, posts, atMs: performance.now() };
  await delay(seconds * 1_000);
  const took = (performance.now() - before.atMs) / 1_000;
  const counted = { messages: reads - before.reads, posts: posts - before.posts, seconds: took };
  process.send({ over: true });
  over = true;
  await Promise.all(work);
  return counted;
}

async function usedStandbys(url) {
  const metrics = await (await fetch(`${url}/metrics`)).text();
  return [...metrics.matchAll(/^sluice_read_standby_up\S* 1$/gm)].length;
}
