import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { createLog, type Log } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { Loop, type Next } from './loop.ts';
import { Loops } from './loops.ts';

const IDLE_MS = 60_000;

/** A pass that the test ends when it likes. */
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
  it('makes its first pass at once, and none before it is started', async () => {
    await later(IDLE_MS);
    expect(passes).toHaveLength(0);
    loop.start();
    expect(passes).toHaveLength(1);
  });

  it('goes on at once while there is more to do', async () => {
    loop.start();
    await last().end('again');
    await last().end('again');
    expect(passes).toHaveLength(3);
  });

  it('rests when there is nothing to do, as long as it was told to', async () => {
    loop.start();
    await last().end('idle');
    await later(IDLE_MS - 1);
    expect(passes).toHaveLength(1);
    await later(1);
    expect(passes).toHaveLength(2);
  });

  it('rests until the time a pass named', async () => {
    loop.start();
    await last().end({ afterMs: 250 });
    await later(249);
    expect(passes).toHaveLength(1);
    await later(1);
    expect(passes).toHaveLength(2);
  });

  it('rests longer each time that something cannot be done yet, up to its idle rest', async () => {
    loop = new Loop('test', pass, { idleMs: 150, log });
    loop.start();
    for (const restMs of [50, 100, 150, 150]) await restsFor(restMs, 'soon');
    await last().end('again');
    await restsFor(50, 'soon');
  });

  it('never makes two passes at once, however often it is started and woken', async () => {
    loop.start();
    loop.start();
    for (let n = 0; n < 10; n++) loop.wake();
    await later(10 * IDLE_MS);
    expect(passes).toHaveLength(1);
  });

  it('is woken from its rest, once for many calls', async () => {
    loop.start();
    await last().end('idle');
    for (let n = 0; n < 10; n++) loop.wake();
    await later(0);
    expect(passes).toHaveLength(2);
  });

  it('makes another pass at once when it was woken during one: that one may have looked too early', async () => {
    loop.start();
    loop.wake();
    await last().end('idle');
    expect(passes).toHaveLength(2);
    await last().end('idle');
    expect(passes).toHaveLength(2);
  });

  it('survives a pass that fails, tells it, and rests longer each time, up to five seconds', async () => {
    loop.start();
    const rests: number[] = [];
    for (let failures = 1; failures <= 9; failures++) {
      await last().fail(new Error(`fault ${failures}`));
      const told = lines.at(-1)!;
      expect(told).toMatchObject({ level: 'error', event: 'loop.failed', loop: 'test', failures });
      expect(told.error).toMatchObject({ message: `fault ${failures}` });
      const restMs = told.retryInMs as number;
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

  it('is not hurried by a wake while it rests from a failure', async () => {
    loop.start();
    loop.wake();
    await last().fail(new Error('fault'));
    loop.wake();
    await later(0);
    expect(passes).toHaveLength(1);
  });

  it('forgets its failures with the first pass that succeeds', async () => {
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
  it('lets the pass in flight end, tells it to hurry, and makes no other', async () => {
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

  it('does not wait for the end of its rest, not even after a failure', async () => {
    loop.start();
    await last().end('idle');
    await loop.stop();

    const failing = new Loop('failing', pass, { idleMs: IDLE_MS, log });
    failing.start();
    await last().fail(new Error('fault'));
    await failing.stop();
  });

  it('may never have been started', async () => {
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

  it('stand still when no pass has ended for three minutes; failing is not standing still', async () => {
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

  it('do not stand still in a pass that lags but gets on with it', async () => {
    const loops = new Loops({ roles: [] }, log, new Metrics());
    let progressed: () => void = () => undefined;
    const slow = loops.create('slow', IDLE_MS, (signal, tell) => {
      progressed = tell;
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

  it('are measured by when they last ended a pass', async () => {
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

  it('are measured by when a pass last went well, too', async () => {
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

/** Lets time pass, and what was due in it happen. */
async function later(ms: number): Promise<void> {
  await jest.advanceTimersByTimeAsync(ms);
}
