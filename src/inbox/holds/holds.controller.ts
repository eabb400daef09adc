import { Body, Controller, Delete, Get, HttpCode, Param, Put, Req } from '@nestjs/common';
import {
  ApiOperation,
  ApiParam,
  ApiProperty,
  ApiPropertyOptional,
  ApiQuery,
  ApiResponse,
  ApiTags,
} from '@nestjs/swagger';
import { IsString, Length } from 'class-validator';
import type { FastifyRequest } from 'fastify';
import { Allow } from '../../http/access.ts';
import { Nullable } from '../../http/optional.ts';
import { ApiPage, pageOf, pageRequest } from '../../http/pages.ts';
import { Problem } from '../../http/problems.ts';
import { queryOf } from '../../http/query.ts';
import { Repeatable } from '../../http/repeats.ts';
import { validBody } from '../../http/valid-body.ts';
import { checkKey, checkTime, Faults } from '../fields.ts';
import { INBOX_LANES } from '../new-message.ts';
import { HELD_KEY, type HeldKey, HOLD, HOLD_KINDS, type HoldView } from './holds.openapi.ts';
import { type HoldCursor, HoldsStore } from './holds-store.ts';

const ApiKey = ApiParam({ name: 'key', description: 'The key of messages; at most 256 bytes of UTF-8.' });

export class PutHold {
  @ApiPropertyOptional({
    type: String,
    format: 'date-time',
    nullable: true,
    description: 'Absent or null: until it is ended.',
  })
  @Nullable()
  @IsString()
  until?: string;

  @ApiProperty({ minLength: 1, maxLength: 500, example: 'campaign in creation' })
  @IsString()
  @Length(1, 500)
  reason: string;
}

@ApiTags('holds')
@Controller('v1')
export class HoldsController {
  constructor(private readonly holds: HoldsStore) {}

  @Put('keys/:key/hold')
  @Allow('admin')
  @ApiOperation({ summary: 'Hold a key: its messages wait, others are not slowed.' })
  @ApiKey
  @ApiResponse({ status: 200, description: 'Held.', schema: HELD_KEY })
  @ApiResponse({ status: 422, description: 'Not valid; `errors` points at each error.' })
  async put(
    @Param('key') key: string,
    @Body(validBody(PutHold)) body: PutHold,
    @Req() request: FastifyRequest,
  ): Promise<HeldKey> {
    const faults = new Faults();
    checkKey(key, '', faults);
    const until = body.until === undefined ? undefined : checkTime(body.until, '/until', faults);
    const [fault] = faults.list;
    if (fault)
      throw new Problem('invalid', `${fault.pointer || 'The key'} ${fault.detail}.`, { errors: faults.list });
    await this.holds.put(key, until, body.reason, request.caller.name);
    return { key, until: until ?? null, reason: body.reason };
  }

  @Delete('keys/:key/hold')
  @HttpCode(204)
  @Allow('admin')
  @ApiOperation({ summary: 'End the hold of a key, of any reason; its messages continue in order.' })
  @ApiKey
  @ApiResponse({ status: 204, description: 'Ended.' })
  @ApiResponse({ status: 404, description: 'This key is not held.' })
  async end(@Param('key') key: string, @Req() request: FastifyRequest): Promise<void> {
    const ended = !key.includes('\u0000') && (await this.holds.end(key, request.caller.name));
    if (!ended) throw new Problem('not-found', 'This key is not held.');
  }

  @Get('holds')
  @Allow('read')
  @Repeatable()
  @ApiOperation({ summary: 'Keys that are held, and why.' })
  @ApiQuery({ name: 'key', required: false, description: 'Only this key.' })
  @ApiQuery({
    name: 'kind',
    required: false,
    schema: { type: 'string', enum: [...HOLD_KINDS] },
    description: 'Only holds of this kind.',
  })
  @ApiPage(HOLD)
  async list(@Req() request: FastifyRequest) {
    const { key, kind, ...paging } = queryOf(request.query, ['key', 'kind', 'limit', 'cursor']);
    if (kind !== undefined && !HOLD_KINDS.some((one) => one === kind))
      throw new Problem('invalid', `kind must be one of ${HOLD_KINDS.join(', ')}.`);
    const page = pageRequest(paging, isHoldCursor);
    const rows = await this.holds.list({ key, kind }, page.after, page.limit + 1);
    return pageOf(
      rows,
      page.limit,
      (row) => [row.lane, row.key],
      ({ key, kind, reason, until, set_at }): HoldView => ({ key, kind, reason, until, since: set_at }),
    );
  }
}

function isHoldCursor(value: unknown): value is HoldCursor {
  return Array.isArray(value) && value.length === 2 && isLane(value[0]) && typeof value[1] === 'string';
}

function isLane(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) < INBOX_LANES;
}
