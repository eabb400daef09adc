import { Controller, Get, Req } from '@nestjs/common';
import { ApiOperation, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { Allow } from '../../http/access.ts';
import { queryOf } from '../../http/query.ts';
import { Repeatable } from '../../http/repeats.ts';
import { REPLICAS } from './replicas.openapi.ts';
import { ReplicasStore } from './replicas-store.ts';

@ApiTags('operations')
@Controller('v1/replicas')
export class ReplicasController {
  constructor(private readonly replicas: ReplicasStore) {}

  @Get()
  @Allow('read')
  @Repeatable()
  @ApiOperation({
    summary: 'All replicas: what they do, their version, and when they were last seen.',
    description: 'A replica that stops removes itself; one that crashed is shown for an hour.',
  })
  @ApiResponse({ status: 200, description: 'The replicas.', schema: REPLICAS })
  async list(@Req() request: FastifyRequest) {
    queryOf(request.query, []);
    return { items: await this.replicas.list(), next: null };
  }
}
