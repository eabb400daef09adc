import { Body, Controller, Get, HttpCode, Param, Post, Req, Res } from '@nestjs/common';
import {
  ApiOperation,
  ApiParam,
  ApiProperty,
  ApiPropertyOptional,
  ApiQuery,
  ApiResponse,
  ApiTags,
} from '@nestjs/swagger';
import { ArrayMaxSize, ArrayNotEmpty, IsBoolean, IsString } from 'class-validator';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Reads } from '../database/reads.ts';
import { Allow } from '../http/access.ts';
import { Optional } from '../http/optional.ts';
import { ApiPage, pageOf, pageRequest } from '../http/pages.ts';
import { Problem } from '../http/problems.ts';
import { queryOf } from '../http/query.ts';
import { TIME } from '../http/schema.ts';
import { timeOf, timeParameter } from '../http/time.ts';
import { validBody } from '../http/valid-body.ts';
import { ApiListener } from '../listeners/listeners.openapi.ts';
import { ListenersStore } from '../listeners/listeners-store.ts';
import { LAST_STATUS, listDeliveries } from './deliveries.sql.ts';
import { DELIVERY, DELIVERY_STATUSES, type DeliveryView } from './fan-out/deliveries.openapi.ts';
import { type DeliveryRow, deliveryView, STATUS } from './fan-out/delivery-view.ts';
import { ReplayStore } from './replay/replay-store.ts';
import { replayView } from './replay/replay-view.ts';
import {
  REPLAY,
  REPLAY_COUNT,
  type ReplayCount,
  type ReplayView,
  STARTED_REPLAY,
  type StartedReplayView,
} from './replay/replays.openapi.ts';
import { Replays } from './replay/replays.ts';

const MAX_LISTED = 1_000;

export class StartReplay {
  @ApiProperty({ format: 'date-time', description: 'Deliveries created at or after this time.' })
  @IsString()
  since: string;

  @ApiPropertyOptional({ format: 'date-time', description: 'Deliveries created before this time.' })
  @Optional()
  @IsString()
  until?: string;

  @ApiPropertyOptional({
    type: [String],
    minItems: 1,
    maxItems: MAX_LISTED,
    description: 'Only messages of these types; `*` matches any characters.',
  })
  @Optional()
  @ArrayNotEmpty()
  @ArrayMaxSize(MAX_LISTED)
  @IsString({ each: true })
  types?: string[];

  @ApiPropertyOptional({
    type: [String],
    minItems: 1,
    maxItems: MAX_LISTED,
    description: 'Only messages of these keys.',
  })
  @Optional()
  @ArrayNotEmpty()
  @ArrayMaxSize(MAX_LISTED)
  @IsString({ each: true })
  keys?: string[];

  @ApiPropertyOptional({ description: 'Only dead letters.' })
  @Optional()
  @IsBoolean()
  onlyFailed?: boolean;

  @ApiPropertyOptional({ description: 'Only count the matching deliveries.' })
  @Optional()
  @IsBoolean()
  dryRun?: boolean;
}

@ApiTags('listeners')
@ApiListener
@Controller('v1/listeners/:name')
export class DeliveriesController {
  constructor(
    private readonly listeners: ListenersStore,
    private readonly reads: Reads,
    private readonly store: ReplayStore,
    private readonly replays: Replays,
  ) {}

  @Get('deliveries')
  @Allow('read')
  @ApiOperation({ summary: 'Deliveries of a listener, newest first.' })
  @ApiQuery({
    name: 'status',
    required: false,
    enum: DELIVERY_STATUSES,
    description: 'Only in this status.',
  })
  @ApiQuery({ name: 'key', required: false, description: 'Only of this message key.' })
  @ApiQuery({ name: 'type', required: false, description: 'Only of this message type.' })
  @ApiQuery({ name: 'since', required: false, schema: TIME, description: 'Created at or after; RFC 3339.' })
  @ApiQuery({
    name: 'responseStatus',
    required: false,
    schema: { type: 'integer' },
    description: 'The HTTP status of the last response.',
  })
  @ApiPage(DELIVERY)
  async list(@Param('name') name: string, @Req() request: FastifyRequest) {
    const listener = await this.listeners.existing(name);
    const names = ['status', 'key', 'type', 'since', 'responseStatus', 'limit', 'cursor'] as const;
    const { status, key, type, since, responseStatus, ...rest } = queryOf(request.query, names);
    if (status !== undefined && !DELIVERY_STATUSES.some((known) => known === status)) {
      throw new Problem('invalid', `status must be one of ${DELIVERY_STATUSES.join(', ')}.`);
    }
    const page = pageRequest(rest, (value): value is number => Number.isSafeInteger(value));
    const values: unknown[] = [page.limit + 1, listener.number];
    const conditions: string[] = [];
    const add = (condition: string, value: unknown) => {
      if (value !== undefined) conditions.push(`${condition} $${values.push(value)}`);
    };
    add(isWaiting(status) ? `${STATUS} =` : 'outbox.status =', status);
    add('inbox.key =', key);
    add('inbox.type =', type);
    add('outbox.created_at >=', timeParameter('since', since));
    add(`${LAST_STATUS} =`, statusOf(responseStatus));
    add('outbox.position <', page.after);
    if (status === 'dead' || status === 'discarded') conditions.push('outbox.lapsed_at IS NOT NULL');
    if (isWaiting(status)) conditions.push('outbox.settled_at IS NULL');
    type Row = DeliveryRow & { position: number; message: string; type: string; key: string };
    const rows = await this.reads.query<Row>(listDeliveries(conditions), values);
    return pageOf(rows, page.limit, (row) => row.position, deliveryOf);
  }

  @Post('replay')
  @HttpCode(202)
  @Allow('admin')
  @ApiOperation({
    summary: 'Send old deliveries again, in order per key; live ones of a key wait behind them.',
  })
  @ApiResponse({
    status: 202,
    description: 'Started; GET `location` for the progress.',
    schema: STARTED_REPLAY,
  })
  @ApiResponse({
    status: 200,
    description: 'With `dryRun`: how many match, and whether there are `more`.',
    schema: REPLAY_COUNT,
  })
  async replay(
    @Param('name') name: string,
    @Body(validBody(StartReplay)) body: StartReplay,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<StartedReplayView | ReplayCount> {
    const listener = await this.listeners.existing(name);
    const filter = {
      since: timeOf(body.since, '/since'),
      until: body.until === undefined ? undefined : timeOf(body.until, '/until'),
      types: body.types,
      keys: body.keys,
      onlyFailed: body.onlyFailed ?? false,
    };
    if (body.dryRun) {
      void reply.code(200);
      return { ...(await this.store.count(listener.number, filter)), dryRun: true };
    }
    const { id, matched, selecting } = await this.store.create(listener, filter, request.caller.name);
    this.replays.wake();
    const location = `/v1/listeners/${encodeURIComponent(name)}/replays/${id}`;
    return { id: String(id), matched, selecting, location };
  }

  @Get('replays/:id')
  @Allow('read')
  @ApiOperation({ summary: 'The progress of a replay.' })
  @ApiParam({ name: 'id', description: 'The `id` of the replay.' })
  @ApiResponse({ status: 200, description: 'The replay.', schema: REPLAY })
  @ApiResponse({ status: 404, description: 'No such listener, or it has no such replay.' })
  async progress(@Param('name') name: string, @Param('id') id: string): Promise<ReplayView> {
    const listener = await this.listeners.existing(name);
    const row = /^\d{1,15}$/.test(id) ? await this.store.progress(Number(id), listener.number) : undefined;
    if (!row) throw new Problem('not-found', 'This listener has no such replay.');
    return replayView(row);
  }
}

function statusOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-5]\d\d$/.test(text)) return Number(text);
  throw new Problem('invalid', 'responseStatus must be an HTTP status, such as 503.');
}

function isWaiting(status: string | undefined): boolean {
  return status !== undefined && ['pending', 'processing', 'held'].includes(status);
}

function deliveryOf(row: DeliveryRow & { message: string; type: string; key: string }): DeliveryView {
  const { attempts: _, attemptsTotal: __, ...delivery } = deliveryView(row);
  return { ...delivery, message: row.message, type: row.type, key: row.key, responseStatus: row.answered };
}
