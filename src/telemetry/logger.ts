import { type DestinationStream, type Logger, pino } from 'pino';
import type { Settings } from '../config/settings.ts';
import { prettyStream } from './pretty-stream.ts';
import { withoutSecrets, withoutSecretTexts } from './redaction.ts';

export type Log = Logger;

/** Injection token of the Log. */
export const LOG = Symbol('Log');

/**
 * Logs one JSON object per line. Every line has a stable `event` (`area.what-happened`), so that searches and alerts
 * survive a change of the message text. No line contains a secret or a payload.
 */
export function createLog(
  settings: Pick<Settings, 'logLevel' | 'logFormat'>,
  destination: DestinationStream = defaultDestination(settings),
): Log {
  return pino(
    {
      level: settings.logLevel,
      base: { service: 'sluice', pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }), log: withoutSecrets },
      // A thrown value that is not an object: its text is still found in `error.message`.
      serializers: { error: (error) => (typeof error === 'object' ? error : { message: String(error) }) },
      hooks: { streamWrite: withoutSecretTexts },
    },
    destination,
  );
}

function defaultDestination(settings: Pick<Settings, 'logFormat'>): DestinationStream {
  const pretty = settings.logFormat === 'pretty' || (settings.logFormat === 'auto' && process.stdout.isTTY);
  if (pretty) return prettyStream(process.stdout);
  const destination = pino.destination({ fd: 1, sync: true });
  // A pipe without a reader (EPIPE) or a closed terminal (EIO) must not end the process in the middle of a drain.
  destination.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE' && error.code !== 'EIO') throw error;
    destination.write = () => true;
  });
  return destination;
}
