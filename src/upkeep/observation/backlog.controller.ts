import { Controller, Get } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import { Allow } from '../../http/access.ts';
import { backlogView } from './backlog-view.ts';
import { ObservationStore, type Observed } from './observation-store.ts';

/** However many ask, the database is looked at this often. */
const FRESH_MS = 1_000;

interface Look {
  readonly at: Date;
  readonly observed: Promise<readonly Observed[]>;
}

/** From any replica that is asked: the metrics of the backlog are only where the role `upkeep` is. */
@ApiTags('operations')
@Controller('v1/backlog')
export class BacklogController {
  private last: Look | undefined;

  constructor(private readonly store: ObservationStore) {}

  @Get()
  @Allow('read')
  @ApiOperation({
    summary: 'What waits in the inbox and for each listener, how old it is, and the dead letters.',
    description:
      'The whole service, whichever replica answers; at most a second old. Counted as in the metrics.',
  })
  async read() {
    const { at, observed } = this.recent();
    return backlogView(at, await observed);
  }

  private recent(): Look {
    if (this.last && Date.now() - this.last.at.getTime() < FRESH_MS) return this.last;
    const look = { at: new Date(), observed: this.store.observe() };
    this.last = look;
    // One that failed is not kept.
    look.observed.catch(() => {
      if (this.last === look) this.last = undefined;
    });
    return look;
  }
}
