import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { createLog, type Log } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { Loop, type Next } from './loop.ts';
import { Loops } from './loops.ts';

const IDLE_MS = 60_000;

/** A pass that ends when the test says so. */
interface Pass {
  readonly signal: AbortSignal;
  end(next: Next): Promise<void>;
  fail(error: Error): Promise<void>;
}

let lines: Record<string, unknown>[];
let log: Log;
let passes: Pass[];
let loop: Loop;

beforeEach(() => {
  jest.useFakeTimers();
  lines = [];
  log = createLog(
    { logLevel: 'trace', logFormat: 'json' },
    { write: (line) => void lines.push(JSON.parse(line)) },
  );
  passes = [];
  loop = new Loop('test', pass, { idleMs: IDLE_MS, log });
});
afterEach(async () => {
  await Promise.all([loop.stop(), passes.at(-1)?.end('idle')]);
  jest.useRealTimers();
});

describe('a loop', () => {
  it('runs its first pass at once, and none before it is started', async () => {
    await later(IDLE_MS);
    expect(passes).toHaveLength(0);
    loop.start();
    expect(passes).toHaveLength(1);
  });

  it('continues at once while there is more to do', async () => {
    loop.start();
    await last().end('again');
    await last().end('again');
    expect(passes).toHaveLength(3);
  });

  it('waits its idle time when there is nothing to do', async () => {
    loop.start();
    await last().end('idle');
    await later(IDLE_MS - 1);
    expect(passes).toHaveLength(1);
    await later(1);
    expect(passes).toHaveLength(2);
  });

  it('waits until the time that a pass returned', async () => {
    loop.start();
    await last().end({ afterMs: 250 });
    await later(249);
    expect(passes).toHaveLength(1);
    await later(1);
    expect(passes).toHaveLength(2);
  });

  it('waits longer each time that something cannot be done yet, up to its idle time', async () => {
    loop = new Loop('test', pass, { idleMs: 150, log });
    loop.start();
    for (const restMs of [50, 100, 150, 150]) await restsFor(restMs, 'soon');
    await last().end('again');
    await restsFor(50, 'soon');
  });

  it('never runs two passes at once, however often it is started and woken', async () => {
    loop.start();
    loop.start();
    for (let n = 0; n < 10; n++) loop.wake();
    await later(10 * IDLE_MS);
    expect(passes).toHaveLength(1);
  });

  it('runs one pass when it is woken many times while idle', async () => {
    loop.start();
    await last().end('idle');
    for (let n = 0; n < 10; n++) loop.wake();
    await later(0);
    expect(passes).toHaveLength(2);
  });

  it('runs another pass at once when it was woken during one: that one may have polled too early', async () => {
    loop.start();
    loop.wake();
    await last().end('idle');
    expect(passes).toHaveLength(2);
    await last().end('idle');
    expect(passes).toHaveLength(2);
  });

  it('survives a pass that fails, logs it, and backs off longer each time, up to five seconds', async () => {
    loop.start();
    const rests: number[] = [];
    for (let failures = 1; failures <= 9; failures++) {
      await last().fail(new Error(`fault ${failures}`));
      const reported = lines.at(-1)!;
      expect(reported).toMatchObject({ level: 'error', event: 'loop.failed', loop: 'test', failures });
      expect(reported.error).toMatchObject({ message: `fault ${failures}` });
      const restMs = reported.retryInMs as number;
      rests.push(restMs);
      await later(restMs - 1);
      expect(passes).toHaveLength(failures);
      await later(1);
      expect(passes).toHaveLength(failures + 1);
    }
    for (const [index, restMs] of rests.entries()) {
      const full = Math.min(5_000, 100 * 2 ** index);
      expect(restMs).toBeGreaterThanOrEqual(full / 2);
      expect(restMs).toBeLessThanOrEqual(full);
    }
  });

  it('does not end its back-off early when it is woken', async () => {
    loop.start();
    loop.wake();
    await last().fail(new Error('fault'));
    loop.wake();
    await later(0);
    expect(passes).toHaveLength(1);
  });

  it('resets its back-off with the first pass that succeeds', async () => {
    loop.start();
    for (let n = 0; n < 5; n++) {
      await last().fail(new Error('fault'));
      await later(5_000);
    }
    await last().end('again');
    await last().fail(new Error('fault'));
    expect(lines.at(-1)).toMatchObject({ failures: 1 });
  });
});

describe('a loop that is stopped', () => {
  it('aborts the signal of the pass in flight, waits for its end and starts no other', async () => {
    loop.start();
    let stopped = false;
    const stop = loop.stop().then(() => {
      stopped = true;
    });
    await later(IDLE_MS);
    expect([stopped, last().signal.aborted]).toEqual([false, true]);
    await last().end('again');
    await stop;
    loop.wake();
    await later(IDLE_MS);
    expect(passes).toHaveLength(1);
  });

  it('does not wait for the end of its idle time, nor of a back-off', async () => {
    loop.start();
    await last().end('idle');
    await loop.stop();

    const failing = new Loop('failing', pass, { idleMs: IDLE_MS, log });
    failing.start();
    await last().fail(new Error('fault'));
    await failing.stop();
  });

  it('need not have been started', async () => {
    await loop.stop();
    loop.start();
    await later(IDLE_MS);
    expect(passes).toHaveLength(0);
  });
});

describe('the loops of a replica', () => {
  const MINUTES = 60_000;

  it('E9 run from its start to its end, if it has their role', async () => {
    const loops = new Loops({ roles: ['inbox'] }, log, new Metrics());
    const [any, mine, others] = (['any', 'inbox', 'outbox'] as const).map((role) =>
      loops.run(role, role, IDLE_MS, () => Promise.resolve('idle')),
    );
    const own = loops.create('own', IDLE_MS, () => Promise.resolve('idle'));
    const running = () => [any, mine, others, own].map((one) => one!.isRunning);
    expect(running()).toEqual([false, false, false, false]);
    loops.onApplicationBootstrap();
    expect(running()).toEqual([true, true, false, false]);
    await loops.beforeApplicationShutdown();
    expect(running()).toEqual([false, false, false, false]);
  });

  it('are stalled when no pass has ended for three minutes; failing is not being stalled', async () => {
    const loops = new Loops({ roles: [] }, log, new Metrics());
    const stuck = loops.create('stuck', IDLE_MS, pass);
    const failing = loops.create('failing', IDLE_MS, () => Promise.reject(new Error('away')));
    const idle = loops.create('idle', 10 * MINUTES, () => Promise.resolve('idle'));
    loops.create('never started', IDLE_MS, pass);
    for (const one of [stuck, failing, idle]) one.start();

    await later(3 * MINUTES);
    expect(loops.stalled()).toEqual([]);
    await later(1);
    expect(loops.stalled()).toEqual(['stuck']);

    const stopped = Promise.all([stuck.stop(), failing.stop(), idle.stop()]);
    expect(loops.stalled(Date.now() + 60 * MINUTES)).toEqual([]);
    await last().end('idle');
    await stopped;
  });

  it('are not stalled in a pass that is slow but reports progress', async () => {
    const loops = new Loops({ roles: [] }, log, new Metrics());
    let progressed: () => void = () => undefined;
    const slow = loops.create('slow', IDLE_MS, (signal, report) => {
      progressed = report;
      return pass(signal);
    });
    slow.start();
    for (let n = 0; n < 5; n++) {
      await later(2 * MINUTES);
      expect(loops.stalled()).toEqual([]);
      progressed();
    }
    await later(3 * MINUTES + 1);
    expect(loops.stalled()).toEqual(['slow']);
    await Promise.all([slow.stop(), last().end('idle')]);
  });

  it('report when they last completed a pass', async () => {
    const metrics = new Metrics();
    const one = new Loops({ roles: [] }, log, metrics).create('one', IDLE_MS, () => Promise.resolve('idle'));
    jest.setSystemTime(1_000_000);
    one.start();
    await later(0);
    expect(await metrics.registry.metrics()).toContain(
      'sluice_loop_last_cycle_timestamp_seconds{loop="one"} 1000',
    );
    await one.stop();
  });

  it('report when a pass last succeeded', async () => {
    const metrics = new Metrics();
    const one = new Loops({ roles: [] }, log, metrics).create('one', IDLE_MS, pass);
    jest.setSystemTime(1_000_000);
    one.start();
    await last().end('again');
    jest.setSystemTime(2_000_000);
    await last().fail(new Error('fault'));
    const text = await metrics.registry.metrics();
    expect(text).toContain('sluice_loop_last_cycle_timestamp_seconds{loop="one"} 2000');
    expect(text).toContain('sluice_loop_last_progress_timestamp_seconds{loop="one"} 1000');
    await one.stop();
  });
});

function pass(signal: AbortSignal): Promise<Next> {
  return new Promise((resolve, reject) => {
    passes.push({
      signal,
      end: async (next) => {
        resolve(next);
        await later(0);
      },
      fail: async (error) => {
        reject(error);
        await later(0);
      },
    });
  });
}

async function restsFor(ms: number, next: Next): Promise<void> {
  await last().end(next);
  const before = passes.length;
  await later(ms - 1);
  expect(passes).toHaveLength(before);
  await later(1);
  expect(passes).toHaveLength(before + 1);
}

function last(): Pass {
  return passes.at(-1)!;
}

/** Advances the fake time and runs what became due. */
async function later(ms: number): Promise<void> {
  await jest.advanceTimersByTimeAsync(ms);
}
