import { Controller, Get, Res } from '@nestjs/common';
import { ApiOperation, ApiProduces, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { Loops } from '../../clock/loops.ts';
import { Allow } from '../../http/access.ts';
import { Readiness } from './readiness.ts';

@ApiTags('operations')
@Controller()
export class HealthController {
  constructor(
    private readonly loops: Loops,
    private readonly readiness: Readiness,
  ) {}

  @Get('livez')
  @Allow('public')
  @ApiOperation({
    summary: '200 while no background loop of this replica is stalled. Never queries the database.',
  })
  livez(@Res({ passthrough: true }) reply: FastifyReply) {
    const stalled = this.loops.stalled();
    if (stalled.length === 0) return { status: 'alive' };
    void reply.code(503);
    return { status: 'standing still', loops: stalled };
  }

  @Get('readyz')
  @Allow('public')
  @ApiProduces('application/json')
  @ApiOperation({ summary: '200 from the end of the start until this replica begins to stop.' })
  readyz(@Res({ passthrough: true }) reply: FastifyReply) {
    if (this.readiness.ready) return { status: 'ready' };
    void reply.code(503);
    return { status: this.readiness.status };
  }
}
