import type { LoggerService } from '@nestjs/common';
import type { Log } from './logger.ts';

/** Warns that another application of the process has a data source of this name, as every cell has: each finds its own. */
const OF_OTHER_APPLICATIONS = 'DataSourceNameRegistry';

/** Writes the log lines of Nest in the format of the service; its start-up messages at `debug`. */
export class NestLog implements LoggerService {
  constructor(private readonly target: Log) {}

  log(message: unknown, ...rest: unknown[]): void {
    this.target.debug({ event: 'nest.log', context: rest.at(-1) }, String(message));
  }

  warn(message: unknown, ...rest: unknown[]): void {
    if (rest.at(-1) === OF_OTHER_APPLICATIONS) return;
    this.target.warn({ event: 'nest.warning', context: rest.at(-1) }, String(message));
  }

  error(message: unknown, ...rest: unknown[]): void {
    const error = message instanceof Error ? message : undefined;
    this.target.error(
      { event: 'nest.error', context: rest.at(-1), error },
      error?.message ?? String(message),
    );
  }

  fatal(message: unknown, ...rest: unknown[]): void {
    this.error(message, ...rest);
  }

  debug(message: unknown, ...rest: unknown[]): void {
    this.target.trace({ event: 'nest.debug', context: rest.at(-1) }, String(message));
  }

  verbose(message: unknown, ...rest: unknown[]): void {
    this.debug(message, ...rest);
  }
}
