import { Controller, Get, Param, Req } from '@nestjs/common';
import { ApiOperation, ApiParam, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { Allow } from '../http/access.ts';
import { Problem } from '../http/problems.ts';
import { checkText, Faults, MAX_ID } from './fields.ts';
import { sourceOfCaller } from './new-message.ts';
import { PRODUCER, type ProducerView } from './post-messages.openapi.ts';
import { ProducersStore } from './producers-store.ts';

@ApiTags('messages')
@Controller('v1/producers')
export class ProducersController {
  constructor(private readonly producers: ProducersStore) {}

  @Get(':id')
  @Allow('produce')
  @ApiOperation({
    summary: 'The last number of a producer, and the numbers below it that are missing.',
    description: `For a producer that restarts: its next \`Producer-Sequence\` is \`last\` + 1. Producers belong to the api key that asks. Nobody registers a producer, so one that has sent nothing yet (or nothing for \`RETENTION_PRODUCERS\`) is not an error: its \`last\` is -1.`,
  })
  @ApiParam({ name: 'id', description: 'The `Producer-Id`.' })
  @ApiResponse({ status: 200, schema: PRODUCER, description: 'As of the last commit.' })
  @ApiResponse({ status: 422, description: 'No producer can have this id.' })
  async one(@Param('id') id: string, @Req() request: FastifyRequest): Promise<ProducerView> {
    const faults = new Faults();
    checkText(id, MAX_ID, '', faults);
    const [fault] = faults.list;
    if (fault) throw new Problem('invalid', `The id of a producer ${fault.detail}.`);
    const { last, missing } = await this.producers.find({ source: sourceOfCaller(request.caller.name), id });
    return { id, last, missing };
  }
}
