import { Injectable } from '@nestjs/common';
import { Problem } from './problems.ts';

/** Responses kept, of the requests that were repeated last. */
const MAX_KEPT = 4_096;
/** Together, as JSON; a page of a list can have 1 MiB. */
const MAX_KEPT_BYTES = 16 * 1024 * 1024;
/** A page that nobody has repeated for this long was closed. */
const FORGOTTEN_AFTER_MS = 60_000;
/** Repetitions that read the database: this many at once, then one per second, whatever the number of pages. */
const MAX_BURST = 5;
const MS_PER_READ = 1_000;
/** Max reads of requests that find no response; later repetitions wait until their rate allows for these, too. */
const MAX_DEBT = 60;

interface Kept {
  readonly atMs: number;
  readonly value: Promise<unknown>;
  /** Known once it was read. */
  bytes: number;
  usedAtMs: number;
}

/** Responses that repeated requests share, if they accept one that is a little old. They are the same for every caller. */
@Injectable()
export class SharedReads {
  /** The one that was markUsed for last is last. */
  private readonly kept = new Map<string, Kept>();
  private keptBytes = 0;
  private readsLeft = MAX_BURST;
  private refilledAtMs = 0;

  /** `maxAgeMs` 0: reads in any case, for a page that was just opened or has just changed something. */
  get(name: string, maxAgeMs: number, read: () => Promise<unknown>, nowMs = performance.now()): Kept {
    this.forgetClosed(nowMs);
    const kept = this.kept.get(name);
    if (kept && maxAgeMs > 0 && !this.isDue(kept, maxAgeMs, nowMs)) return this.markUsed(name, kept, nowMs);
    // There is no response to share: it reads at once, and counts against the rate of the others.
    if (!kept && maxAgeMs > 0) this.takeRead(nowMs, MAX_DEBT);
    const started: Kept = { atMs: nowMs, value: read(), bytes: 0, usedAtMs: nowMs };
    this.forget(name);
    this.kept.set(name, started);
    if (this.kept.size > MAX_KEPT) this.forgetFirst();
    void started.value.then((body) => this.recordSize(name, started, body)).catch(() => undefined);
    // A refused request is refused for the next one, too. Anything else that failed may succeed.
    started.value.catch((error: unknown) => {
      if (!(error instanceof Problem) && this.kept.get(name) === started) this.forget(name);
    });
    return started;
  }

  private markUsed(name: string, kept: Kept, nowMs: number): Kept {
    kept.usedAtMs = nowMs;
    this.kept.delete(name);
    this.kept.set(name, kept);
    return kept;
  }

  private recordSize(name: string, read: Kept, body: unknown): void {
    if (this.kept.get(name) !== read) return;
    read.bytes = typeof body === 'string' ? body.length : JSON.stringify(body).length;
    this.keptBytes += read.bytes;
    while (this.keptBytes > MAX_KEPT_BYTES) this.forgetFirst();
  }

  private forgetClosed(nowMs: number): void {
    for (const [name, { usedAtMs }] of this.kept) {
      if (nowMs - usedAtMs <= FORGOTTEN_AFTER_MS) return;
      this.forget(name);
    }
  }

  private forgetFirst(): void {
    this.forget(this.kept.keys().next().value!);
  }

  private forget(name: string): void {
    this.keptBytes -= this.kept.get(name)?.bytes ?? 0;
    this.kept.delete(name);
  }

  /** The more pages there are, the longer each waits: otherwise those that happen to ask first would get every read. */
  private isDue(kept: Kept, maxAgeMs: number, nowMs: number): boolean {
    const turnMs = this.kept.size > MAX_BURST ? this.kept.size * MS_PER_READ : 0;
    return nowMs - kept.atMs >= Math.max(maxAgeMs, turnMs) && this.takeRead(nowMs);
  }

  private takeRead(nowMs: number, maxDebt = 0): boolean {
    const refilled = (nowMs - this.refilledAtMs) / MS_PER_READ;
    this.readsLeft = Math.min(MAX_BURST, this.readsLeft + refilled);
    this.refilledAtMs = nowMs;
    if (this.readsLeft < 1 - maxDebt) return false;
    this.readsLeft -= 1;
    return true;
  }
}
