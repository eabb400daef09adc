import { Controller, Get } from '@nestjs/common';
import { ApiOperation, ApiResponse, ApiTags } from '@nestjs/swagger';
import { Allow } from '../../http/access.ts';
import { BACKLOG, type BacklogView } from './backlog.openapi.ts';
import { backlogView } from './backlog-view.ts';
import { Snapshots } from './snapshots.ts';

/** Served by every replica with the role `api`; the backlog metrics are only on replicas with the role `upkeep`. */
@ApiTags('operations')
@Controller('v1/backlog')
export class BacklogController {
  constructor(private readonly snapshots: Snapshots) {}

  @Get()
  @Allow('read')
  @ApiOperation({
    summary:
      'The backlog of the inbox, of each listener and of each consumer group, its age, and the number of dead letters.',
    description:
      'Covers the whole service, whichever replica responds; at most a second old. Counted as in the metrics.',
  })
  @ApiResponse({ status: 200, description: 'The backlog.', schema: BACKLOG })
  async read(): Promise<BacklogView> {
    const { at, observed } = this.snapshots.recent();
    return backlogView(at, await observed);
  }
}
