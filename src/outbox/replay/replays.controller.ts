import { Controller, Get, HttpCode, Param, Post, Req } from '@nestjs/common';
import { ApiOperation, ApiParam, ApiQuery, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { Allow } from '../../http/access.ts';
import { ApiPage, pageOf, pageRequest } from '../../http/pages.ts';
import { Problem } from '../../http/problems.ts';
import { queryOf } from '../../http/query.ts';
import { Repeatable } from '../../http/repeats.ts';
import { ApiListener } from '../../listeners/listeners.openapi.ts';
import { ListenersStore } from '../../listeners/listeners-store.ts';
import { ReplayStore } from './replay-store.ts';
import { replayView } from './replay-view.ts';
import { REPLAY, type ReplayView } from './replays.openapi.ts';
import { Replays } from './replays.ts';

@ApiTags('listeners')
@Controller('v1')
export class ReplaysController {
  constructor(
    private readonly listeners: ListenersStore,
    private readonly store: ReplayStore,
    private readonly replays: Replays,
  ) {}

  @Get('replays')
  @Allow('read')
  @Repeatable()
  @ApiOperation({ summary: 'Replays with their progress, newest first.' })
  @ApiQuery({ name: 'listener', required: false, description: 'Only of this listener.' })
  @ApiPage(REPLAY)
  async list(@Req() request: FastifyRequest) {
    const { listener, ...rest } = queryOf(request.query, ['listener', 'limit', 'cursor']);
    const page = pageRequest(rest, (value): value is number => Number.isSafeInteger(value));
    const of = listener === undefined ? undefined : await this.listeners.existing(listener);
    const rows = await this.store.list(of?.number, page.after, page.limit + 1);
    return pageOf(rows, page.limit, ({ id }) => id, replayView);
  }

  @Post('listeners/:name/replays/:id/cancel')
  @HttpCode(200)
  @Allow('admin', 'none')
  @ApiOperation({
    summary: 'Stop a replay: what it has not begun is not sent again; a key that it has begun is completed.',
  })
  @ApiListener
  @ApiParam({ name: 'id', description: 'The id of the replay.' })
  @ApiResponse({ status: 200, description: 'Cancelled.', schema: REPLAY })
  @ApiResponse({ status: 409, description: 'It is done.' })
  async cancel(
    @Param('name') name: string,
    @Param('id') text: string,
    @Req() { caller }: FastifyRequest,
  ): Promise<ReplayView> {
    const listener = await this.listeners.existing(name);
    const id = /^\d{1,15}$/.test(text) ? Number(text) : 0;
    const cancelled = await this.store.cancel(id, listener, caller.name);
    const row = await this.store.progress(id, listener.number);
    if (!row) throw new Problem('not-found', 'This listener has no such replay.');
    if (!cancelled) throw new Problem('conflict', 'This replay has sent everything.');
    this.replays.wake();
    return replayView(row);
  }
}
