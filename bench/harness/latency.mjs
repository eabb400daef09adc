import { setTimeout as delay } from 'node:timers/promises';
import { percentile } from './statistics.mjs';

const EVERY_MS = 50;
const WARM_UP = 4_000;
/** On a busy machine so many would take minutes. */
const MAX_WARM_UP_MS = 15_000;
const SETTLE = 20;

/** Warm-up: a service that has just started has not compiled its code yet, which is not to be compared. Counts down from -1. */
export async function warmUp(once, together = 16) {
  let n = 0;
  const deadline = performance.now() + MAX_WARM_UP_MS;
  const loop = async () => {
    while (n > -WARM_UP && performance.now() < deadline) {
      n -= 1;
      await once(n);
    }
  };
  await Promise.all(Array.from({ length: together }, loop));
}

/** Runs 20 times per second, however long each run takes; `once(n)` returns milliseconds. The first second does not count. */
export async function twentyPerSecond(seconds, once) {
  const all = [];
  const count = SETTLE + seconds * 20;
  const startedAt = performance.now();
  let cpu;
  for (let n = 0; n < count; n++) {
    if (n === SETTLE) cpu = process.cpuUsage();
    await delay(Math.max(0, startedAt + n * EVERY_MS - performance.now()));
    all.push(once(n));
  }
  const times = (await Promise.all(all)).slice(SETTLE);
  const used = process.cpuUsage(cpu);
  return {
    p50: percentile(times, 0.5),
    p99: percentile(times, 0.99),
    nodeMicros: (used.user + used.system) / times.length,
  };
}
