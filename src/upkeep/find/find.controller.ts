import { Controller, Get, Req } from '@nestjs/common';
import { ApiOperation, ApiQuery, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { Allow } from '../../http/access.ts';
import { Problem } from '../../http/problems.ts';
import { queryOf } from '../../http/query.ts';
import { TEXT, TIME } from '../../http/schema.ts';
import { MAX_NEWEST } from '../../outbox/delivery-store.ts';
import { FindStore, type Found } from './find-store.ts';

const MAX_TEXT = 256;
const FOUND = {
  type: 'object',
  required: ['items'],
  properties: {
    items: {
      type: 'array',
      items: {
        title: 'Found',
        type: 'object',
        required: ['kind', 'id'],
        properties: {
          kind: {
            ...TEXT,
            enum: ['message', 'delivery', 'key', 'listener', 'topic', 'group', 'schedule'],
          },
          id: TEXT,
          source: TEXT,
          status: TEXT,
          type: TEXT,
          at: TIME,
        },
      },
    },
  },
};

@ApiTags('operations')
@Controller('v1/find')
export class FindController {
  constructor(private readonly store: FindStore) {}

  @Get()
  @Allow('read')
  @ApiOperation({
    summary: 'What a text names: a message id, a webhook id, a key, or the beginning of a name.',
    description: `Messages by their exact id, of all sources, also those in history; a delivery by its id, if it is or was a dead letter or among the ${MAX_NEWEST.toLocaleString('en')} that were created last; a key; listeners, topics, groups and schedules whose names start with the text.`,
  })
  @ApiQuery({ name: 'q', description: 'The text, up to 256 characters.' })
  @ApiResponse({ status: 200, description: 'What was found.', schema: FOUND })
  async find(@Req() request: FastifyRequest) {
    const { q = '' } = queryOf(request.query, ['q']);
    const text = q.trim();
    if (text === '' || text.length > MAX_TEXT)
      throw new Problem('invalid', `q must have 1 to ${MAX_TEXT} characters.`);
    return { items: (await this.store.find(text)).map(withoutNulls) };
  }
}

function withoutNulls(found: Found): Partial<Found> {
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== null));
}
