import { Controller, Delete, Get, HttpCode, Param, Post, Put, Req, Res } from '@nestjs/common';
import { ApiBody, ApiOperation, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Allow } from '../../http/access.ts';
import { isName, rejectBadName } from '../../http/names.ts';
import { ApiPage, pageOf, pageRequest } from '../../http/pages.ts';
import { Problem } from '../../http/problems.ts';
import { queryOf } from '../../http/query.ts';
import { JSON_TEXT, Repeatable } from '../../http/repeats.ts';
import { LOCATION, object, TEXT } from '../../http/schema.ts';
import { Cron } from './cron.ts';
import { readSchedule } from './read-schedule.ts';
import { type ScheduleRow, ScheduleStore } from './schedule-store.ts';
import { scheduleJson } from './schedule-view.ts';
import { ApiNewSchedule, ApiSchedule, PUT_SCHEDULE, SCHEDULE } from './schedules.openapi.ts';
import { Schedules } from './schedules.ts';

@ApiTags('schedules')
@Controller('v1/schedules')
export class SchedulesController {
  constructor(
    private readonly store: ScheduleStore,
    private readonly schedules: Schedules,
  ) {}

  @Put(':name')
  @Allow('admin', 'raw')
  @ApiOperation({ summary: 'Post a message at each tick of a cron expression, once over all replicas.' })
  @ApiNewSchedule
  @ApiBody({ schema: PUT_SCHEDULE })
  @ApiResponse({ status: 201, description: 'Created.', schema: SCHEDULE, headers: LOCATION })
  @ApiResponse({ status: 200, description: 'Replaced.', schema: SCHEDULE })
  @ApiResponse({ status: 422, description: 'Not valid; `errors` points at each error.' })
  async put(
    @Param('name') name: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    rejectBadName(name);
    const { definition, cron } = await readSchedule(request);
    const { row, created } = await this.store.put({ name, ...definition }, cron, request.caller.name);
    this.schedules.wake();
    if (created) void reply.code(201).header('location', `/v1/schedules/${name}`);
    send(reply, scheduleJson(row));
  }

  @Get()
  @Allow('read')
  @Repeatable()
  @ApiOperation({ summary: 'All schedules, by name.' })
  @ApiPage(SCHEDULE)
  async list(
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<string> {
    const page = pageRequest(queryOf(request.query, ['limit', 'cursor']), isName);
    const rows = await this.store.list(page.after, page.limit + 1);
    const { items, next } = pageOf(rows, page.limit, (row) => row.name, scheduleJson);
    reply.type(JSON_TEXT);
    return `{"items":[${items.join(',')}],"next":${JSON.stringify(next)}}`;
  }

  @Get(':name')
  @Allow('read')
  @ApiOperation({ summary: 'A schedule, with its last and its next tick.' })
  @ApiSchedule
  @ApiResponse({ status: 200, description: 'The schedule.', schema: SCHEDULE })
  async one(@Param('name') name: string, @Res() reply: FastifyReply): Promise<void> {
    send(reply, scheduleJson(known(isName(name) ? await this.store.find(name) : undefined)));
  }

  @Delete(':name')
  @HttpCode(204)
  @Allow('admin')
  @ApiOperation({ summary: 'Delete a schedule; messages it posted stay.' })
  @ApiSchedule
  @ApiResponse({ status: 204, description: 'Deleted.' })
  async remove(@Param('name') name: string, @Req() request: FastifyRequest): Promise<void> {
    if (!isName(name) || !(await this.store.delete(name, request.caller.name))) throw noSchedule();
  }

  @Post(':name/pause')
  @HttpCode(200)
  @Allow('admin', 'none')
  @ApiOperation({ summary: 'Pause a schedule: nothing is posted until it is resumed.' })
  @ApiSchedule
  @ApiResponse({ status: 200, description: 'Paused.', schema: SCHEDULE })
  async pause(
    @Param('name') name: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    send(reply, await this.setPaused(name, true, request));
  }

  @Post(':name/run')
  @HttpCode(202)
  @Allow('admin', 'none')
  @ApiOperation({ summary: 'Post the message of a schedule now, also while it is paused; its ticks stay.' })
  @ApiSchedule
  @ApiResponse({
    status: 202,
    description: 'Posted.',
    schema: object({ id: TEXT }),
  })
  async run(@Param('name') name: string, @Req() request: FastifyRequest) {
    const id = isName(name) ? await this.schedules.run(name, request.caller.name) : undefined;
    if (id === undefined) throw noSchedule();
    return { id };
  }

  @Post(':name/resume')
  @HttpCode(200)
  @Allow('admin', 'none')
  @ApiOperation({
    summary: 'Resume a schedule with its next tick; ticks while it was paused are not posted.',
  })
  @ApiSchedule
  @ApiResponse({ status: 200, description: 'Resumed.', schema: SCHEDULE })
  @ApiResponse({ status: 409, description: 'Its stored cron expression or time zone is no longer valid.' })
  async resume(
    @Param('name') name: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const json = await this.setPaused(name, false, request);
    this.schedules.wake();
    send(reply, json);
  }

  private async setPaused(name: string, paused: boolean, { caller }: FastifyRequest): Promise<string> {
    const row = isName(name) ? await this.store.setPaused(name, paused, nextOf, caller.name) : undefined;
    return scheduleJson(known(row));
  }
}

function nextOf({ cron, timezone }: ScheduleRow, now: Date): Date {
  const parsed = Cron.parse(cron, timezone);
  if (parsed.kind === 'valid') return parsed.cron.after(now);
  throw new Problem('conflict', `${parsed.pointer} ${parsed.detail}; store the schedule again.`);
}

function send(reply: FastifyReply, json: string): void {
  void reply.type(JSON_TEXT).send(json);
}

function known(row: ScheduleRow | undefined): ScheduleRow {
  if (!row) throw noSchedule();
  return row;
}

function noSchedule(): Problem {
  return new Problem('not-found', 'No schedule has this name.');
}
