/** Of the time a worker holds lanes, asking for messages may take this share before it takes fewer lanes. */
const TOO_MUCH = 0.33;
/** Below this it takes more again. */
const LITTLE = 0.25;

/** How a worker spent its time with the lanes it held. */
export interface WorkTimes {
  /** Leasing and claiming. */
  readonly askingMs: number;
  readonly totalMs: number;
  /** Some claim got as many messages as it wanted. */
  readonly full: boolean;
}

/**
 * How many lanes a worker leases at a time. Many fill a batch when each has little, and messages that lie side by side are
 * handled together. But each claim steps over what was settled in its lanes and cannot be cleaned up while an old snapshot
 * is open anywhere (a backup, a report). With a backlog, a few lanes fill a batch as well, and that is paid for fewer.
 */
export class LaneBudget {
  lanes: number;
  /** More was waiting than one claim takes. */
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
