export interface LaneQueueOptions {
  readonly lanes: number;
  readonly leaseMs: number;
  readonly replica: string;
  /**
   * Only `leaseSuspect` leases suspect lanes, so that the whole process works on one at a time. Otherwise `lease` leases
   * them too, each alone.
   */
  readonly suspectsApart?: boolean;
  /** Called with how many rows a crashed holder had in flight. */
  readonly onTakenOver?: (rows: number) => void;
  /** Called with how many lanes were lost to another replica; each lane is counted once. */
  readonly onLost?: (lanes: number) => void;
}
