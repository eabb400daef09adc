import { setTimeout as pause } from 'node:timers/promises';
import type { Context } from './command.ts';

const POLL_MS = 500;

/** The progress of a job that the service runs in the background. */
export interface Progress {
  readonly status: string;
  readonly matched: number;
}

/** Polls a job until it is finished or the command is stopped; returns its last state. */
export async function follow<P extends Progress>(
  path: string,
  { api, output, stopping }: Context,
  handledOf: (progress: P) => number,
): Promise<P> {
  for (;;) {
    const progress = (await api.get(path)).body as P;
    const handled = handledOf(progress);
    const finished = progress.status === 'finished';
    const share = finished ? 1 : Math.min(0.99, handled / Math.max(1, progress.matched));
    output.progress(share, `${handled} of ${progress.matched}`);
    if (finished || stopping.aborted) return progress;
    await pause(POLL_MS, undefined, { signal: stopping }).catch(() => undefined);
  }
}
