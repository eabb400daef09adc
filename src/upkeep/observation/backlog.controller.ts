import { Controller, Get } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import { Allow } from '../../http/access.ts';
import { backlogView } from './backlog-view.ts';
import { ObservationStore, type Observed } from './observation-store.ts';

/** The database is queried at most once in this time, regardless of the number of requests. */
const MAX_AGE_MS = 1_000;

interface Snapshot {
  readonly at: Date;
  readonly observed: Promise<readonly Observed[]>;
}

/** Served by every replica with the role `api`; the backlog metrics are only on replicas with the role `upkeep`. */
@ApiTags('operations')
@Controller('v1/backlog')
export class BacklogController {
  private last: Snapshot | undefined;

  constructor(private readonly store: ObservationStore) {}

  @Get()
  @Allow('read')
  @ApiOperation({
    summary: 'The backlog of the inbox and of each listener, its age, and the number of dead letters.',
    description:
      'Covers the whole service, whichever replica responds; at most a second old. Counted as in the metrics.',
  })
  async read() {
    const { at, observed } = this.recent();
    return backlogView(at, await observed);
  }

  private recent(): Snapshot {
    if (this.last && Date.now() - this.last.at.getTime() < MAX_AGE_MS) return this.last;
    const snapshot = { at: new Date(), observed: this.store.observe() };
    this.last = snapshot;
    // A failed query is not cached.
    snapshot.observed.catch(() => {
      if (this.last === snapshot) this.last = undefined;
    });
    return snapshot;
  }
}
