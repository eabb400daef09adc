import { Body, Controller, Get, HttpCode, Param, Post, Req } from '@nestjs/common';
import {
  ApiBody,
  ApiOperation,
  ApiParam,
  ApiPropertyOptional,
  ApiQuery,
  ApiResponse,
  ApiTags,
} from '@nestjs/swagger';
import { IsString, Length } from 'class-validator';
import type { FastifyRequest } from 'fastify';
import { Allow } from '../http/access.ts';
import { Nullable } from '../http/optional.ts';
import { Problem } from '../http/problems.ts';
import { queryOf } from '../http/query.ts';
import { validated } from '../http/valid-body.ts';
import { DELIVERY, RESENT } from './delivery.openapi.ts';
import { DeliveryStore, type FoundDelivery } from './delivery-store.ts';
import { deliveryView } from './fan-out/delivery-view.ts';
import { ReplayStore } from './replay/replay-store.ts';
import { Replays } from './replay/replays.ts';

export class Resend {
  @ApiPropertyOptional({ example: 'the receiver lost it' })
  @Nullable()
  @IsString()
  @Length(1, 500)
  reason?: string;
}

const BY_ID = { name: 'id', description: 'The id of the delivery.' };
const BY_MESSAGE = {
  name: 'message',
  required: false,
  description:
    'The id of its message. Needed for a delivery that succeeded and is not among the newest 50,000.',
};

@ApiTags('listeners')
@Controller('v1/deliveries/:id')
export class DeliveryController {
  constructor(
    private readonly deliveries: DeliveryStore,
    private readonly replayStore: ReplayStore,
    private readonly replays: Replays,
  ) {}

  @Get()
  @Allow('read')
  @ApiOperation({ summary: 'A delivery by its id, which is the `webhook-id` that its receiver got.' })
  @ApiParam(BY_ID)
  @ApiQuery(BY_MESSAGE)
  @ApiResponse({ status: 200, description: 'The delivery.', schema: DELIVERY })
  async one(@Param('id') id: string, @Req() request: FastifyRequest) {
    const row = await this.find(id, request);
    const { message, source, type, key } = row;
    return { ...deliveryView(row), messageId: message, source, type, key };
  }

  @Post('resend')
  @HttpCode(202)
  @Allow('admin')
  @ApiOperation({
    summary: 'Send a delivery again that was delivered or is a dead letter, with the same `webhook-id`.',
  })
  @ApiParam(BY_ID)
  @ApiQuery(BY_MESSAGE)
  @ApiBody({ type: Resend, required: false })
  @ApiResponse({ status: 202, schema: RESENT, description: 'It will be sent in its turn.' })
  @ApiResponse({
    status: 409,
    description: 'It is pending, was discarded, or its listener or message is gone.',
  })
  async resend(@Param('id') id: string, @Body() body: unknown, @Req() request: FastifyRequest) {
    const { reason } = await validated(Resend, body ?? {});
    const row = await this.find(id, request);
    refuseResend(row);
    const replay = await this.replayStore.resend(row, reason, request.caller.name);
    this.replays.wake();
    return { id: row.id, status: 'held', replay: String(replay) };
  }

  private async find(id: string, request: FastifyRequest): Promise<FoundDelivery> {
    const { message } = queryOf(request.query, ['message']);
    const row = await this.deliveries.find(id, message);
    if (row) return row;
    throw new Problem(
      'not-found',
      'No delivery has this id. One that succeeded long ago is found with ?message= and the id of its message.',
    );
  }
}

function refuseResend({ status, settled_at, deleted, listener, message }: FoundDelivery): void {
  if (settled_at === null)
    throw new Problem('conflict', `This delivery is ${status}: it will be sent anyway.`);
  if (status === 'discarded') throw new Problem('conflict', 'An operator discarded this delivery.');
  if (deleted || listener === null) throw new Problem('conflict', 'Its listener was deleted.');
  if (message === null) throw new Problem('conflict', 'The retention of its message is over.');
}
