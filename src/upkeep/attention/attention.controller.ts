import { Controller, Get, Req } from '@nestjs/common';
import { ApiOperation, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { Allow } from '../../http/access.ts';
import { queryOf } from '../../http/query.ts';
import { ATTENTION } from './attention.openapi.ts';
import { Attention } from './attention.ts';

@ApiTags('operations')
@Controller('v1/attention')
export class AttentionController {
  constructor(private readonly attention: Attention) {}

  @Get()
  @Allow('read')
  @ApiOperation({
    summary: 'What needs an operator now, the most urgent first, each with its next step.',
    description: 'Covers the whole service, whichever replica responds; at most a second old.',
  })
  @ApiResponse({
    status: 200,
    description: 'The most urgent first; empty if nothing needs an operator.',
    schema: ATTENTION,
  })
  read(@Req() request: FastifyRequest) {
    queryOf(request.query, []);
    return this.attention.now();
  }
}
