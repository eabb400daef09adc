interface Sample {
  readonly position: number;
  readonly atMs: number;
}

/** Longer than the longest READ_MAX_LAG. */
const KEPT_MS = 3_600_000;

/**
 * Where the primary was in its WAL, and when this replica saw it there. That dates a standby without comparing clocks, and
 * without its own word: a standby that lost its primary believes that it has everything.
 */
export class PrimaryPositions {
  private samples: Sample[] = [];

  add(position: number, nowMs: number): void {
    const { samples } = this;
    if (samples.at(-1)?.position === position) return;
    samples.push({ position, atMs: nowMs });
    if (samples[0]!.atMs < nowMs - KEPT_MS) samples.shift();
  }

  clear(): void {
    this.samples = [];
  }

  /** For how long a server that has replayed the WAL up to here has certainly been missing something. */
  lagMs(position: number, nowMs: number): number {
    const current = this.samples.findLastIndex((one) => one.position <= position);
    const missing = this.samples[current + 1];
    return missing ? nowMs - missing.atMs : 0;
  }
}
