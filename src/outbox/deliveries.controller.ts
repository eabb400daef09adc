import { Body, Controller, Get, HttpCode, Param, Post, Req } from '@nestjs/common';
import {
  ApiOperation,
  ApiProperty,
  ApiPropertyOptional,
  ApiQuery,
  ApiResponse,
  ApiTags,
} from '@nestjs/swagger';
import { ArrayMaxSize, ArrayNotEmpty, IsBoolean, IsString } from 'class-validator';
import type { FastifyRequest } from 'fastify';
import { Reads } from '../database/reads.ts';
import { Allow } from '../http/access.ts';
import { Optional } from '../http/optional.ts';
import { ApiPage, pageOf, pageRequest } from '../http/pages.ts';
import { Problem } from '../http/problems.ts';
import { queryOf } from '../http/query.ts';
import { timeOf } from '../http/time.ts';
import { validBody } from '../http/valid-body.ts';
import { ListenersStore } from '../listeners/listeners-store.ts';
import { listDeliveries } from './deliveries.sql.ts';
import { type DeliveryRow, deliveryView } from './fan-out/delivery-view.ts';
import { type ReplayProgress, ReplayStore } from './replay/replay-store.ts';
import { Replays } from './replay/replays.ts';

const STATUSES = ['pending', 'processing', 'held', 'finished', 'dead', 'discarded'];
const MAX_LISTED = 1_000;

export class StartReplay {
  @ApiProperty({ format: 'date-time', description: 'Deliveries created at or after this time.' })
  @IsString()
  since: string;

  @ApiPropertyOptional({ format: 'date-time' })
  @Optional()
  @IsString()
  until?: string;

  @ApiPropertyOptional()
  @Optional()
  @ArrayNotEmpty()
  @ArrayMaxSize(MAX_LISTED)
  @IsString({ each: true })
  types?: string[];

  @ApiPropertyOptional()
  @Optional()
  @ArrayNotEmpty()
  @ArrayMaxSize(MAX_LISTED)
  @IsString({ each: true })
  keys?: string[];

  @ApiPropertyOptional({ description: 'Only dead letters.' })
  @Optional()
  @IsBoolean()
  onlyFailed?: boolean;
}

@ApiTags('listeners')
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
  @ApiQuery({ name: 'status', required: false, enum: STATUSES })
  @ApiQuery({ name: 'key', required: false })
  @ApiPage()
  async list(@Param('name') name: string, @Req() request: FastifyRequest) {
    const listener = await this.listeners.existing(name);
    const { status, key, ...rest } = queryOf(request.query, ['status', 'key', 'limit', 'cursor']);
    if (status !== undefined && !STATUSES.includes(status)) {
      throw new Problem('invalid', `status must be one of ${STATUSES.join(', ')}.`);
    }
    const page = pageRequest(rest, (value): value is number => Number.isSafeInteger(value));
    const values: unknown[] = [page.limit + 1, listener.number];
    const conditions: string[] = [];
    const add = (condition: string, value: unknown) => {
      if (value !== undefined) conditions.push(`${condition} $${values.push(value)}`);
    };
    add('outbox.status =', status);
    add('inbox.key =', key);
    add('outbox.position <', page.after);
    if (status === 'dead' || status === 'discarded') conditions.push('outbox.lapsed_at IS NOT NULL');
    if (status && ['pending', 'processing', 'held'].includes(status))
      conditions.push('outbox.settled_at IS NULL');
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
    description:
      'How many match. With `selecting`, so far: the rest is selected in the background. `location` shows the progress.',
  })
  async replay(
    @Param('name') name: string,
    @Body(validBody(StartReplay)) body: StartReplay,
    @Req() request: FastifyRequest,
  ) {
    const listener = await this.listeners.existing(name);
    const filter = {
      since: timeOf(body.since, '/since'),
      until: body.until === undefined ? undefined : timeOf(body.until, '/until'),
      types: body.types,
      keys: body.keys,
      onlyFailed: body.onlyFailed ?? false,
    };
    const { id, matched, selecting } = await this.store.create(listener, filter, request.caller.name);
    this.replays.wake();
    const location = `/v1/listeners/${encodeURIComponent(name)}/replays/${id}`;
    return { id: String(id), matched, selecting, location };
  }

  @Get('replays/:id')
  @Allow('read')
  @ApiOperation({ summary: 'The progress of a replay.' })
  async progress(@Param('name') name: string, @Param('id') id: string) {
    const listener = await this.listeners.existing(name);
    const row = /^\d{1,15}$/.test(id) ? await this.store.progress(Number(id), listener.number) : undefined;
    if (!row) throw new Problem('not-found', 'This listener has no such replay.');
    return progressView(row);
  }
}

function deliveryOf(row: DeliveryRow & { message: string; type: string; key: string }) {
  const { attempts: _, attemptsTotal: __, ...delivery } = deliveryView(row);
  return { ...delivery, message: row.message, type: row.type, key: row.key, answered: row.answered };
}

function progressView({ id, matched, selecting, waiting, dead, filter, ...row }: ReplayProgress) {
  const closed = selecting ? matched : row.closed;
  return {
    id: String(id),
    status: !selecting && row.done_at && waiting === 0 ? 'finished' : 'running',
    selecting,
    matched,
    sent: matched - closed - waiting - dead,
    dead,
    waiting: closed + waiting,
    filter,
    createdAt: row.created_at,
    createdBy: row.created_by,
  };
}
