import { Body, Controller, Delete, Get, HttpCode, Param, Post, Put, Req, Res } from '@nestjs/common';
import {
  ApiBody,
  ApiOperation,
  ApiParam,
  ApiProperty,
  ApiPropertyOptional,
  ApiResponse,
  ApiTags,
} from '@nestjs/swagger';
import { IsIn, IsString } from 'class-validator';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Allow } from '../../http/access.ts';
import { isName, NAME_FORM, refuseBadName } from '../../http/names.ts';
import { Nullable } from '../../http/optional.ts';
import { ApiPage, pageOf, pageRequest } from '../../http/pages.ts';
import { faultyFields, Problem } from '../../http/problems.ts';
import { queryOf } from '../../http/query.ts';
import { validated } from '../../http/valid-body.ts';
import { checkKey, checkName, Faults, LONGEST_TYPE } from '../../inbox/fields.ts';
import { Cron } from './cron.ts';
import { ON_MISSED, type OnMissed } from './due-ticks.ts';
import { type ScheduleRow, ScheduleStore } from './schedule-store.ts';
import { Schedules } from './schedules.ts';

export class PutSchedule {
  @ApiProperty({ example: '*/10 * * * *', description: '5 fields, or 6 with seconds first.' })
  @IsString()
  cron: string;

  @ApiPropertyOptional({ example: 'Europe/Warsaw', default: 'UTC' })
  @Nullable()
  @IsString()
  timezone?: string;

  @ApiProperty({ example: 'urn:ekp:commands/check-timetables' })
  @IsString()
  type: string;

  /** Any JSON; not looked into. */
  @ApiProperty({ type: Object })
  payload: unknown;

  @ApiPropertyOptional({ description: 'Absent: each message is its own.' })
  @Nullable()
  @IsString()
  key?: string;

  @ApiPropertyOptional({
    enum: ON_MISSED,
    default: 'one',
    description: 'What follows when no replica was there for more than a minute.',
  })
  @Nullable()
  @IsIn(ON_MISSED)
  onMissed?: OnMissed;
}

@ApiTags('schedules')
@Controller('v1/schedules')
export class SchedulesController {
  constructor(
    private readonly store: ScheduleStore,
    private readonly schedules: Schedules,
  ) {}

  @Put(':name')
  @Allow('admin')
  @ApiOperation({ summary: 'Post a message at each tick of a cron expression, once over all replicas.' })
  @ApiParam({ name: 'name', example: 'timetables', description: NAME_FORM })
  @ApiBody({ type: PutSchedule })
  @ApiResponse({ status: 201, description: 'Created.' })
  @ApiResponse({ status: 200, description: 'Replaced.' })
  @ApiResponse({ status: 422, description: 'Not valid; `errors` points at each fault.' })
  async put(
    @Param('name') name: string,
    @Body() body: unknown,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    refuseBadName(name);
    const { parsed, ...definition } = await definitionOf(body);
    const { row, created } = await this.store.put({ name, ...definition }, parsed, request.caller.name);
    this.schedules.wake();
    if (created) void reply.code(201).header('location', `/v1/schedules/${name}`);
    return scheduleView(row);
  }

  @Get()
  @Allow('read')
  @ApiOperation({ summary: 'All schedules, by name.' })
  @ApiPage()
  async list(@Req() request: FastifyRequest) {
    const page = pageRequest(queryOf(request.query, ['limit', 'cursor']), isName);
    const rows = await this.store.list(page.after, page.limit + 1);
    return pageOf(rows, page.limit, (row) => row.name, scheduleView);
  }

  @Get(':name')
  @Allow('read')
  @ApiOperation({ summary: 'A schedule, when it ticked last and when it ticks next.' })
  async one(@Param('name') name: string) {
    return scheduleView(known(isName(name) ? await this.store.find(name) : undefined));
  }

  @Delete(':name')
  @HttpCode(204)
  @Allow('admin')
  @ApiOperation({ summary: 'Delete a schedule; messages it posted stay.' })
  async remove(@Param('name') name: string, @Req() request: FastifyRequest): Promise<void> {
    if (!isName(name) || !(await this.store.delete(name, request.caller.name))) throw noSchedule();
  }

  @Post(':name/pause')
  @HttpCode(200)
  @Allow('admin', 'none')
  @ApiOperation({ summary: 'Post nothing until it is resumed.' })
  pause(@Param('name') name: string, @Req() request: FastifyRequest) {
    return this.setPaused(name, true, request);
  }

  @Post(':name/resume')
  @HttpCode(200)
  @Allow('admin', 'none')
  @ApiOperation({ summary: 'Go on with the next tick; those meanwhile are not made up for.' })
  async resume(@Param('name') name: string, @Req() request: FastifyRequest) {
    const view = await this.setPaused(name, false, request);
    this.schedules.wake();
    return view;
  }

  private async setPaused(name: string, paused: boolean, { caller }: FastifyRequest) {
    const row = isName(name) ? await this.store.setPaused(name, paused, nextOf, caller.name) : undefined;
    return scheduleView(known(row));
  }
}

async function definitionOf(body: unknown) {
  // The payload is anybody's: it is not shown to the library, which would leave parts of it out.
  const { payload, ...rest } = (body ?? {}) as Record<string, unknown>;
  const fields = await validated(PutSchedule, typeof body === 'object' && !Array.isArray(body) ? rest : body);
  const faults = new Faults();
  if (payload === undefined) faults.add('/payload', 'is required');
  const type = checkName(fields.type, LONGEST_TYPE, '/type', faults);
  const key = fields.key === undefined ? null : checkKey(fields.key, '/key', faults);
  const timezone = fields.timezone ?? 'UTC';
  const parsed = Cron.parse(fields.cron, timezone);
  if (parsed.kind === 'faulty') faults.add(parsed.pointer, parsed.detail);
  if (parsed.kind === 'faulty' || faults.list.length > 0) throw faultyFields(faults.list);
  return {
    cron: fields.cron.trim(),
    parsed: parsed.cron,
    timezone,
    type: type!,
    payload: JSON.stringify(payload),
    key: key!,
    on_missed: fields.onMissed ?? ('one' as const),
  };
}

function nextOf({ cron, timezone }: ScheduleRow, now: Date): Date {
  const parsed = Cron.parse(cron, timezone);
  if (parsed.kind === 'valid') return parsed.cron.after(now);
  throw new Problem('conflict', `${parsed.pointer} ${parsed.detail}; put it anew.`);
}

function scheduleView(row: ScheduleRow) {
  return {
    name: row.name,
    cron: row.cron,
    timezone: row.timezone,
    type: row.type,
    payload: JSON.parse(row.payload),
    key: row.key,
    onMissed: row.on_missed,
    paused: row.paused,
    nextAt: row.paused ? null : row.next_at,
    lastAt: row.last_at,
    createdAt: row.created_at,
    createdBy: row.created_by,
    updatedAt: row.updated_at,
    updatedBy: row.updated_by,
  };
}

function known(row: ScheduleRow | undefined): ScheduleRow {
  if (!row) throw noSchedule();
  return row;
}

function noSchedule(): Problem {
  return new Problem('not-found', 'No schedule has this name.');
}
