import { Worker } from 'node:worker_threads';

/** Checks per timeout: the process is killed between 1 and 1 + 1/CHECKS timeouts after its event loop stopped. */
const CHECKS = 10;

/**
 * Runs in a thread of its own, because nothing runs in the blocked one. It counts its own checks instead of measuring
 * time: a process that was suspended (SIGSTOP) and continues must not be taken for one that hangs.
 */
const THREAD = `
  const { workerData } = require('node:worker_threads');
  const { writeSync } = require('node:fs');
  const beats = new Int32Array(workerData.beats);
  let seen = -1;
  let unchanged = 0;
  setInterval(() => {
    const now = Atomics.load(beats, 0);
    unchanged = now === seen ? unchanged + 1 : 0;
    seen = now;
    if (unchanged < workerData.checks) return;
    const line = { level: 'fatal', time: new Date().toISOString(), service: 'sluice', pid: process.pid,
      event: 'service.stuck', msg: 'the event loop was blocked for longer than WATCHDOG_TIMEOUT; the process is killed' };
    writeSync(2, JSON.stringify(line) + '\\n');
    process.kill(process.pid, 'SIGKILL');
  }, workerData.everyMs);
`;

/**
 * Kills the process when its event loop is blocked. An endless loop in a denormalizer would otherwise hold the messages of
 * its lanes for ever, and no timer of this process would run to notice. Other replicas take its work over as after any crash.
 */
export function startWatchdog(timeoutMs: number): () => Promise<void> {
  const beats = new SharedArrayBuffer(4);
  const everyMs = Math.max(10, timeoutMs / CHECKS);
  const worker = new Worker(THREAD, { eval: true, workerData: { beats, everyMs, checks: CHECKS } });
  worker.unref();
  const beating = setInterval(() => Atomics.add(new Int32Array(beats), 0, 1), everyMs / 2).unref();
  return async () => {
    clearInterval(beating);
    await worker.terminate();
  };
}
