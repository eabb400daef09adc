import 'reflect-metadata';
import { banner } from './banner.ts';
import { startWatchdog } from './clock/watchdog.ts';
import type { Settings } from './config/settings.ts';
import { type Service, startService } from './service.ts';
import type { Log } from './telemetry/logger.ts';

/** Start, serve, drain. Exit code 0 after a drain, 1 when it could not start or lost its database. */
export async function serve(settings: Settings, log: Log): Promise<void> {
  const stopping = stopSignal(settings, log);
  startWatchdog(settings.watchdogTimeout);
  const service = await startService(settings, log);
  process.stdout.write(banner(settings, service));
  process.exitCode = await Promise.race([stopping, lossOf(service, log)]);
  await service.stop();
}

/** The first SIGTERM or Ctrl-C drains; a second one, or a drain that takes too long, ends at once. */
function stopSignal(settings: Settings, log: Log): Promise<number> {
  return new Promise((resolve) => {
    let told = false;
    // One listener that stays: between taking one away and adding another, a signal would end the process as it pleases.
    const onSignal = (signal: NodeJS.Signals) => {
      if (told) process.exit(1);
      told = true;
      log.info({ event: 'service.draining', signal }, 'draining; once more to end at once');
      resolve(0);
      setTimeout(() => {
        log.error({ event: 'service.drain-timeout' }, 'the drain took longer than DRAIN_TIMEOUT');
        process.exit(1);
      }, settings.drainGrace + settings.drainTimeout).unref();
    };
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, onSignal);
  });
}

async function lossOf(service: Service, log: Log): Promise<number> {
  if (!service.databaseLost) return new Promise(() => undefined);
  const how = await service.databaseLost;
  log.fatal({ event: 'database.embedded-lost', how }, 'the embedded PostgreSQL ended by itself; see its log');
  return 1;
}
