/** A worker takes fewer lanes when leasing and claiming take more than this share of the time it holds them. */
const TOO_MUCH = 0.33;
/** Below this share it takes more lanes again. */
const LITTLE = 0.25;

/** How a worker spent the time it held its lanes. */
export interface WorkTimes {
  /** Leasing and claiming. */
  readonly askingMs: number;
  readonly totalMs: number;
  /** The first claim returned as many messages as it may. */
  readonly full: boolean;
}

/**
 * How many lanes a worker leases at a time. With many lanes a batch is full even if each lane has few messages. But each
 * claim steps over the settled rows of its lanes, which cannot be vacuumed while an old snapshot is open anywhere (a backup,
 * a report). With a backlog, a few lanes fill a batch as well, and the claim steps over fewer settled rows.
 */
export class LaneBudget {
  lanes: number;
  /** More messages were ready than one claim takes. */
  backlog = false;

  constructor(private readonly most: number) {
    this.lanes = most;
  }

  adapt({ askingMs, totalMs, full }: WorkTimes): void {
    this.backlog = full;
    if (!full || askingMs < totalMs * LITTLE) this.lanes = Math.min(this.most, this.lanes * 2);
    else if (askingMs > totalMs * TOO_MUCH) this.lanes = Math.max(1, Math.floor(this.lanes / 2));
  }
}
