import { pause } from './pause.ts';

/** A replica that stops, and a change of an assignment, end a long poll early. */
const EARLY_MS = 1_000;
const MAX_PAUSE_MS = 500;

/** Long polls that return nothing, at once, again and again, must not become a load. */
export class EarlyPause {
  private inARow = 0;

  async after(
    reply: { isEmpty: boolean; tookMs: number; waitMs: number },
    signal: AbortSignal,
  ): Promise<void> {
    const isEarly = reply.isEmpty && reply.tookMs < Math.min(EARLY_MS, reply.waitMs);
    this.inARow = isEarly ? this.inARow + 1 : 0;
    if (this.inARow >= 2) await pause(Math.min(MAX_PAUSE_MS, 5 * 2 ** this.inARow), signal);
  }
}
