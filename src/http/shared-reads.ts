import { Injectable } from '@nestjs/common';
import { Problem } from './problems.ts';

/** What one page repeats is kept for the next repetition, of the last so many pages. */
const MAX_KEPT = 256;
/** Together, as JSON; a page of a list can have 1 MiB. */
const MAX_KEPT_BYTES = 16 * 1024 * 1024;
/** Repetitions that read the database: this many at once, then one per second, whatever the number of pages. */
const MAX_BURST = 5;
const MS_PER_READ = 1_000;
/** If there are more, what they get may be older than they want, but no older than this. */
const MAX_STALE_MS = 60_000;

interface Kept {
  readonly atMs: number;
  readonly value: Promise<unknown>;
  /** Known once it was read. */
  bytes: number;
}

/** Responses that requests share which may be a little old. Everybody who may send the request gets the same response. */
@Injectable()
export class SharedReads {
  private readonly kept = new Map<string, Kept>();
  private keptBytes = 0;
  private readsLeft = MAX_BURST;
  private refilledAtMs = 0;

  /** `maxAgeMs` 0: reads in any case, for a page that was just opened or has just changed something. */
  get(name: string, maxAgeMs: number, read: () => Promise<unknown>, nowMs = performance.now()): Kept {
    const kept = this.kept.get(name);
    if (kept && maxAgeMs > 0 && !this.isDue(kept, maxAgeMs, nowMs)) return kept;
    const started: Kept = { atMs: nowMs, value: read(), bytes: 0 };
    this.forget(name);
    this.kept.set(name, started);
    if (this.kept.size > MAX_KEPT) this.forgetOldest();
    void started.value.then((body) => this.weigh(name, started, body)).catch(() => undefined);
    // A refused request is refused for the next one, too. Anything else that failed may succeed.
    started.value.catch((error: unknown) => {
      if (!(error instanceof Problem) && this.kept.get(name) === started) this.forget(name);
    });
    return started;
  }

  private weigh(name: string, read: Kept, body: unknown): void {
    if (this.kept.get(name) !== read) return;
    read.bytes = typeof body === 'string' ? body.length : JSON.stringify(body).length;
    this.keptBytes += read.bytes;
    while (this.keptBytes > MAX_KEPT_BYTES) this.forgetOldest();
  }

  private forgetOldest(): void {
    this.forget(this.kept.keys().next().value!);
  }

  private forget(name: string): void {
    this.keptBytes -= this.kept.get(name)?.bytes ?? 0;
    this.kept.delete(name);
  }

  private isDue(kept: Kept, maxAgeMs: number, nowMs: number): boolean {
    const age = nowMs - kept.atMs;
    if (age < maxAgeMs) return false;
    return age >= MAX_STALE_MS || this.takeRead(nowMs);
  }

  private takeRead(nowMs: number): boolean {
    const refilled = (nowMs - this.refilledAtMs) / MS_PER_READ;
    this.readsLeft = Math.min(MAX_BURST, this.readsLeft + refilled);
    this.refilledAtMs = nowMs;
    if (this.readsLeft < 1) return false;
    this.readsLeft -= 1;
    return true;
  }
}
