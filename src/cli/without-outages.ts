import { setTimeout as pause } from 'node:timers/promises';
import { CliError } from './cli-error.ts';
import type { Context } from './command.ts';

const RETRY_MS = 1_000;

/**
 * Retries until the service can be reached again, and reports that once; the first call of a command fails instead.
 * Undefined: the command was stopped.
 */
export async function withoutOutages<Result>(
  { output, stopping }: Context,
  call: () => Promise<Result>,
  isFirst = false,
): Promise<Result | undefined> {
  for (let isReported = false; ; isReported = true) {
    try {
      return await call();
    } catch (error) {
      if (stopping.aborted) return undefined;
      if (isFirst || !(error instanceof CliError && error.transient)) throw error;
      if (!isReported) output.note(`${error.message}; retrying`);
      await pause(RETRY_MS, undefined, { signal: stopping }).catch(() => undefined);
      if (stopping.aborted) return undefined;
    }
  }
}
