import { Injectable } from '@nestjs/common';
import { ObservationStore, type Observed } from './observation-store.ts';

/** The database is queried at most once in this time, regardless of the number of requests. */
const MAX_AGE_MS = 1_000;

export interface Snapshot {
  readonly at: Date;
  readonly observed: Promise<readonly Observed[]>;
}

/** What waits in the database, shared by all readers of this replica. */
@Injectable()
export class Snapshots {
  private last: Snapshot | undefined;

  constructor(private readonly store: ObservationStore) {}

  recent(): Snapshot {
    if (this.last && Date.now() - this.last.at.getTime() < MAX_AGE_MS) return this.last;
    return this.keep({ at: new Date(), observed: this.store.observe() });
  }

  /** A snapshot that was read for another purpose is shared, too. */
  keep(snapshot: Snapshot): Snapshot {
    this.last = snapshot;
    // A failed query is not cached.
    snapshot.observed.catch(() => {
      if (this.last === snapshot) this.last = undefined;
    });
    return snapshot;
  }
}
