import type { ServerResponse } from 'node:http';

/** A viewer that has not read this much gets no more: the next snapshot it gets has all that it missed. */
const MAX_UNSENT_BYTES = 64 * 1024;
/** A viewer that reads nothing for this long is disconnected. */
const MAX_STALLED_MS = 30_000;

/** One open stream. */
export class Viewer {
  private stalledSinceMs: number | undefined;

  constructor(
    /** Whose stream it is: a session, or an api key. */
    readonly owner: string,
    private readonly response: ServerResponse,
    /** Whether its session or api key is still valid. */
    readonly isAllowed: () => Promise<boolean>,
  ) {}

  /** Unless it has not read what it was sent before. */
  send(text: string, nowMs = performance.now()): void {
    if (this.response.destroyed) return;
    if (this.response.writableLength <= MAX_UNSENT_BYTES) {
      this.stalledSinceMs = undefined;
      this.response.write(text);
      return;
    }
    this.stalledSinceMs ??= nowMs;
    if (nowMs - this.stalledSinceMs > MAX_STALLED_MS) this.response.destroy();
  }

  /** A client that does not read would never see the end: it is disconnected. */
  end(): void {
    if (this.response.writableLength > 0) this.response.destroy();
    else this.response.end();
  }
}
