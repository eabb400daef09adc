import { Pool } from 'undici';
import { Progress } from '../harness/progress.mjs';
import { keyOf, TEXT, TYPE } from '../harness/workload.mjs';

export function setup() {}

/** N loops that post one body after the other: no queue, no signature, nothing stored. */
export async function drain({ receiver, path, concurrency, complete, ...counts }) {
  const progress = new Progress(counts);
  const pool = new Pool(receiver, { connections: concurrency, pipelining: 1 });
  let index = 0;
  const loop = async () => {
    while (index < counts.until) {
      const n = index++;
      const body = JSON.stringify({
        id: `m-${n}`,
        type: TYPE,
        key: keyOf(n),
        sequence: 1,
        data: { n, text: TEXT },
      });
      const headers = { 'content-type': 'application/json' };
      const response = await pool.request({ path, method: 'POST', headers, body });
      await response.body.dump();
      if (response.statusCode !== 204) throw new Error(`responded ${response.statusCode}`);
      progress.handled();
    }
  };
  await Promise.all(Array.from({ length: concurrency }, loop));
  const result = await progress.over();
  await pool.close();
  return result;
}
