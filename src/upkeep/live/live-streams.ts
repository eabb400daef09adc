import { Injectable } from '@nestjs/common';
import { Problem, retryAfter } from '../../http/problems.ts';
import { Readiness } from '../health/readiness.ts';
import { LiveFrames } from './live-frames.ts';
import { OperatorActions } from './operator-actions.ts';
import type { Viewer } from './viewer.ts';

const MAX_STREAMS = 200;
const TICK_MS = 1_000;
/** Every replica must reject a revoked key within 5 s, and each learns of it within 2 s. */
const CHECK_MS = 1_500;

/** Whose streams are counted together. */
export interface StreamOwner {
  readonly id: string;
  readonly maxStreams: number;
}

/**
 * Sends one snapshot per second to all viewers, and one at once when an operator has changed something: an earlier tick, at most
 * one per second. The database is not read without a viewer, and as often with one as with any number of them. A snapshot
 * replaces the one before, so a viewer that is slow misses nothing.
 */
@Injectable()
export class LiveStreams {
  private readonly viewers = new Set<Viewer>();
  private isTicking = false;
  private timer: NodeJS.Timeout | undefined;
  private earlyAtMs = Number.NEGATIVE_INFINITY;
  private checkedAtMs = 0;

  constructor(
    private readonly frames: LiveFrames,
    private readonly readiness: Readiness,
    actions: OperatorActions,
  ) {
    actions.on(() => this.tickEarly());
    readiness.onDraining(() => this.endAll());
  }

  get size(): number {
    return this.viewers.size;
  }

  /** Throws a problem if there are too many, or if this replica is about to stop. */
  refuseMore({ id, maxStreams }: StreamOwner): void {
    if (this.readiness.status === 'draining')
      throw new Problem('stopping', 'This replica is shutting down. Connect again.', retryAfter(1));
    if (this.viewers.size >= MAX_STREAMS)
      throw new Problem('overloaded', `This replica has ${MAX_STREAMS} live streams.`, retryAfter(10));
    const own = [...this.viewers].filter((viewer) => viewer.owner === id);
    if (own.length >= maxStreams)
      throw new Problem(
        'too-many-requests',
        `This session or API key has ${maxStreams} live streams; close one of them.`,
        retryAfter(10),
      );
  }

  /** Sends to the viewer until it is removed; the first snapshot at once. */
  add(viewer: Viewer): void {
    this.viewers.add(viewer);
    void this.frames.next().then(({ text }) => viewer.send(text));
    if (this.isTicking) return;
    this.isTicking = true;
    this.tickIn(TICK_MS);
  }

  remove(viewer: Viewer): void {
    this.viewers.delete(viewer);
  }

  private tickIn(ms: number): void {
    this.timer = setTimeout(() => void this.tick(), ms).unref();
  }

  /** Not while a tick is reading: what it reads may be of before the change, and the next one is at most a second later. */
  private tickEarly(): void {
    if (!this.timer || performance.now() - this.earlyAtMs < TICK_MS) return;
    this.earlyAtMs = performance.now();
    clearTimeout(this.timer);
    void this.tick(0);
  }

  private async tick(maxAgeMs?: number): Promise<void> {
    this.timer = undefined;
    this.isTicking = this.viewers.size > 0;
    if (!this.isTicking) return;
    const startedAt = Date.now();
    const { text, observedAt } = await this.frames.next(maxAgeMs);
    for (const viewer of this.viewers) viewer.send(text);
    this.endRefused();
    // Right after the last snapshot is a second old: a moment earlier, the same one would be sent again.
    const due = (observedAt?.getTime() ?? startedAt) + TICK_MS + 1;
    this.tickIn(Math.min(TICK_MS, Math.max(due - Date.now(), 0)));
  }

  /** Nobody waits for it: to learn that a key is gone may take a query. */
  private endRefused(): void {
    if (performance.now() - this.checkedAtMs < CHECK_MS) return;
    this.checkedAtMs = performance.now();
    for (const viewer of this.viewers)
      void viewer.isAllowed().then((allowed) => {
        if (!allowed) viewer.end();
      });
  }

  /** Open streams must not delay the stop. */
  private endAll(): void {
    for (const viewer of this.viewers) viewer.end();
  }
}
