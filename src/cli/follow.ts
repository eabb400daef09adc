import { setTimeout as pause } from 'node:timers/promises';
import type { Context } from './command.ts';

const EVERY_MS = 500;

/** How long work is, that the service does by itself. */
export interface Progress {
  readonly status: string;
  readonly matched: number;
}

/** Looks again and again until it is finished; answers with how it was last. */
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
    await pause(EVERY_MS, undefined, { signal: stopping }).catch(() => undefined);
  }
}
