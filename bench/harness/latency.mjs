import { setTimeout as delay } from 'node:timers/promises';
import { percentile } from './statistics.mjs';

const EVERY_MS = 50;
const WARM_UP = 40;

/** Twenty times a second, however long each takes; `once(n)` answers with milliseconds. The first two seconds do not count. */
export async function twentyPerSecond(seconds, once) {
  const all = [];
  const count = WARM_UP + seconds * 20;
  const startedAt = performance.now();
  let cpu;
  for (let n = 0; n < count; n++) {
    if (n === WARM_UP) cpu = process.cpuUsage();
    await delay(Math.max(0, startedAt + n * EVERY_MS - performance.now()));
    all.push(once(n));
  }
  const times = (await Promise.all(all)).slice(WARM_UP);
  const used = process.cpuUsage(cpu);
  return {
    p50: percentile(times, 0.5),
    p99: percentile(times, 0.99),
    nodeMicros: (used.user + used.system) / times.length,
  };
}
