import 'reflect-metadata';
import { banner } from './banner.ts';
import { startWatchdog } from './clock/watchdog.ts';
import type { Settings } from './config/settings.ts';
import { type Service, startService } from './service.ts';
import type { Log } from './telemetry/logger.ts';

/** Start, serve, drain. Exit code 0 after a drain, 1 when it could not start or lost its database. */
export async function serve(settings: Settings, log: Log): Promise<void> {
  // A pipe without a reader, a closed terminal: that must not end the process in the middle of a drain.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
  const stopping = stopSignal(settings, log);
  startWatchdog(settings.watchdogTimeout);
  const service = await startService(settings, log);
  process.stdout.write(banner(settings, service));
  process.exitCode = await Promise.race([stopping, lossOf(service, log)]);
  await service.stop();
}

/** SIGHUP: the terminal was closed, or npm is gone (scripts/start.mjs). */
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

/** Whether it asks for nothing new. Nobody who closes a terminal during a drain asks for a faster end. */
function isSame(signal: NodeJS.Signals, first: Received): boolean {
  return signal === 'SIGHUP' || (signal === first.signal && performance.now() < first.atMs + SAME_SIGNAL_MS);
}

/** The first SIGTERM or Ctrl-C drains; a second one, or a drain that takes too long, ends at once. */
function stopSignal(settings: Settings, log: Log): Promise<number> {
  return new Promise((resolve) => {
    let first: Received | undefined;
    // One listener that stays: between taking one away and adding another, a signal would end the process as it pleases.
    const onSignal = (signal: NodeJS.Signals) => {
      if (first && isSame(signal, first)) return;
      if (first) process.exit(1);
      first = { signal, atMs: performance.now() };
      log.info({ event: 'service.draining', signal }, 'draining; once more to end at once');
      resolve(0);
      setTimeout(() => {
        log.error({ event: 'service.drain-timeout' }, 'the drain took longer than DRAIN_TIMEOUT');
        process.exit(1);
      }, settings.drainGrace + settings.drainTimeout).unref();
    };
    for (const signal of STOP_SIGNALS) process.on(signal, onSignal);
  });
}

async function lossOf(service: Service, log: Log): Promise<number> {
  if (!service.databaseLost) return new Promise(() => undefined);
  const how = await service.databaseLost;
  log.fatal({ event: 'database.embedded-lost', how }, 'the embedded PostgreSQL ended by itself; see its log');
  return 1;
}
