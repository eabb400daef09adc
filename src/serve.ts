import 'reflect-metadata';
import { banner } from './banner.ts';
import { startWatchdog } from './clock/watchdog.ts';
import type { Settings } from './config/settings.ts';
import type { ReadModel } from './contract/read-model.ts';
import { type Service, startService } from './service.ts';
import type { Log } from './telemetry/logger.ts';

/**
 * Starts the service, serves until a stop signal, drains. Exit code 0 after a drain, 1 if it
 * could not start or lost its embedded database.
 */
export async function serve(settings: Settings, log: Log, readModels: readonly ReadModel[]): Promise<void> {
  // A pipe without a reader or a closed terminal must not end the process in the middle of a drain.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
  const stopping = stopSignal(settings, log);
  startWatchdog(settings.watchdogTimeout);
  const service = await startService(settings, log, readModels);
  process.stdout.write(banner(settings, service, readModels));
  process.exitCode = await Promise.race([stopping, databaseLoss(service, log)]);
  await service.stop();
}

/** SIGHUP: the terminal was closed, or npm has exited (scripts/start.mjs). */
const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/**
 * Ctrl-C and systemd signal the whole process group, and npm forwards the signal to its child as well: the same signal
 * arrives twice, a few milliseconds apart.
 */
const SAME_SIGNAL_MS = 1_000;

interface Received {
  readonly signal: NodeJS.Signals;
  readonly atMs: number;
}

/** Whether the signal repeats the first one. SIGHUP during a drain always does: closing a terminal must not hasten it. */
function isRepeat(signal: NodeJS.Signals, first: Received): boolean {
  return signal === 'SIGHUP' || (signal === first.signal && performance.now() < first.atMs + SAME_SIGNAL_MS);
}

/** The first SIGTERM or Ctrl-C starts the drain; a second one, or a drain that takes too long, ends the process at once. */
function stopSignal(settings: Settings, log: Log): Promise<number> {
  return new Promise((resolve) => {
    let first: Received | undefined;
    // One permanent handler: if it were replaced, a signal between removing and adding would kill the process.
    const onSignal = (signal: NodeJS.Signals) => {
      if (first && isRepeat(signal, first)) return;
      if (first) process.exit(1);
      first = { signal, atMs: performance.now() };
      log.info({ event: 'service.draining', signal }, 'draining; signal again to exit at once');
      resolve(0);
      setTimeout(() => {
        log.error({ event: 'service.drain-timeout' }, 'the drain took longer than DRAIN_TIMEOUT');
        process.exit(1);
      }, settings.drainGrace + settings.drainTimeout).unref();
    };
    for (const signal of STOP_SIGNALS) process.on(signal, onSignal);
  });
}

/** Resolves with exit code 1 when the embedded database stops unexpectedly; never resolves without one. */
async function databaseLoss(service: Service, log: Log): Promise<number> {
  if (!service.databaseLost) return new Promise(() => undefined);
  const how = await service.databaseLost;
  log.fatal(
    { event: 'database.embedded-lost', how },
    'the embedded PostgreSQL stopped unexpectedly; see its log',
  );
  return 1;
}
