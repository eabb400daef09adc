import { Controller, Get, Inject, Optional, Res } from '@nestjs/common';
import { ApiOperation, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { Loops } from '../../clock/loops.ts';
import { Allow } from '../../http/access.ts';
import { CELL_REPORTS, type CellReports } from './cell-reports.ts';
import { ALIVE, type Liveness, NOT_READY, READY, type ReadinessView, STALLED } from './health.openapi.ts';
import { Readiness } from './readiness.ts';

@ApiTags('operations')
@Controller()
export class HealthController {
  constructor(
    private readonly loops: Loops,
    private readonly readiness: Readiness,
    @Optional() @Inject(CELL_REPORTS) private readonly cells: CellReports | undefined,
  ) {}

  @Get('livez')
  @Allow('public')
  @ApiOperation({
    summary: '200 while no background loop of this replica is stalled. Never queries the database.',
  })
  @ApiResponse({ status: 200, description: 'Alive.', schema: ALIVE })
  @ApiResponse({ status: 503, description: 'Stalled; restart it.', schema: STALLED })
  livez(@Res({ passthrough: true }) reply: FastifyReply): Liveness {
    const stalled = this.loops.stalled();
    if (stalled.length === 0) return { status: 'alive' };
    void reply.code(503);
    return { status: 'stalled', loops: stalled };
  }

  @Get('readyz')
  @Allow('public')
  @ApiOperation({
    summary:
      '200 from the end of the start until this replica begins to stop. With CELLS it says which cells are up; one that is away does not change the status.',
  })
  @ApiResponse({ status: 200, description: 'Ready.', schema: READY })
  @ApiResponse({
    status: 503,
    description: 'Not ready: send requests to another replica.',
    schema: NOT_READY,
  })
  readyz(@Res({ passthrough: true }) reply: FastifyReply): ReadinessView {
    const { status } = this.readiness;
    if (status !== 'ready') void reply.code(503);
    return this.cells ? { status, cells: this.cells.states() } : { status };
  }
}
