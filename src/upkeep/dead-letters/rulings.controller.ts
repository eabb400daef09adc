import { Controller, Get, HttpCode, Param, Post, Req } from '@nestjs/common';
import { ApiOperation, ApiParam, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { Allow } from '../../http/access.ts';
import { ApiPage, pageOf, pageRequest } from '../../http/pages.ts';
import { Problem } from '../../http/problems.ts';
import { queryOf } from '../../http/query.ts';
import { Repeatable } from '../../http/repeats.ts';
import { actionView } from './dead-letter-action.ts';
import { DeadLetterActionStore } from './dead-letter-action-store.ts';
import { DeadLetterActions } from './dead-letter-actions.ts';
import { ACTION, type ActionView } from './dead-letters.openapi.ts';

/** Revives and discards by filter. */
@ApiTags('dead letters')
@Controller('v1/dead-letters/rulings')
export class RulingsController {
  constructor(
    private readonly store: DeadLetterActionStore,
    private readonly actions: DeadLetterActions,
  ) {}

  @Get()
  @Allow('read')
  @Repeatable()
  @ApiOperation({ summary: 'Revives and discards by filter, with their progress, newest first.' })
  @ApiPage(ACTION)
  async list(@Req() request: FastifyRequest) {
    const query = queryOf(request.query, ['limit', 'cursor']);
    const page = pageRequest(query, (value): value is number => Number.isSafeInteger(value));
    const rows = await this.store.list(page.after, page.limit + 1);
    return pageOf(rows, page.limit, ({ id }) => id, actionView);
  }

  @Post(':id/cancel')
  @HttpCode(200)
  @Allow('admin', 'none')
  @ApiOperation({
    summary:
      'Stop a revive or discard: dead letters that it has not begun stay dead letters; a key that it has begun is completed.',
  })
  @ApiParam({ name: 'id', description: 'The id of the revive or discard.' })
  @ApiResponse({ status: 200, description: 'Cancelled.', schema: ACTION })
  @ApiResponse({ status: 409, description: 'It is done.' })
  async cancel(@Param('id') text: string, @Req() { caller }: FastifyRequest): Promise<ActionView> {
    const id = /^\d{1,15}$/.test(text) ? Number(text) : 0;
    const cancelled = await this.store.cancel(id, caller.name);
    const row = await this.store.progress(id);
    if (!row) throw new Problem('not-found', 'No revive or discard has this id.');
    if (!cancelled) throw new Problem('conflict', 'It has already handled all dead letters that it matched.');
    this.actions.wake();
    return actionView(row);
  }
}
