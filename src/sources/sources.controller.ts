import { Body, Controller, Delete, Get, HttpCode, Param, Post, Req, Res } from '@nestjs/common';
import {
  ApiOperation,
  ApiParam,
  ApiProperty,
  ApiPropertyOptional,
  ApiResponse,
  ApiTags,
} from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Allow } from '../http/access.ts';
import { aText, listOf, Must } from '../http/definition-rules.ts';
import { Optional } from '../http/optional.ts';
import { ApiPage, pageOf, pageRequest } from '../http/pages.ts';
import { Problem } from '../http/problems.ts';
import { queryOf } from '../http/query.ts';
import { validBody } from '../http/valid-body.ts';
import { DISCARDED, REFUSED, SOURCE, SOURCE_LIST, type SourceView } from './sources.openapi.ts';
import { type SourceRow, SourcesStore } from './sources-store.ts';

const MAX_NUMBERS = 1_000;
const EXCERPT_BYTES = 1_024;
const NEWEST = Number.MAX_SAFE_INTEGER;

class Discard {
  @ApiProperty({ description: 'For the audit log.' })
  @Must(aText)
  reason: string;

  @ApiPropertyOptional({ type: [Number], maxItems: MAX_NUMBERS, description: 'Default: all.' })
  @Optional()
  @Must(listOf(1, MAX_NUMBERS))
  numbers?: number[];
}

@ApiTags('sources')
@Controller('v1/sources')
export class SourcesController {
  constructor(private readonly store: SourcesStore) {}

  @Get()
  @Allow('read')
  @ApiOperation({ summary: 'Streams and queues of brokers whose messages go into the inbox.' })
  @ApiResponse({ status: 200, description: 'All of them.', schema: SOURCE_LIST })
  async list() {
    return { items: (await this.store.list()).map(sourceView) };
  }

  @Get(':name')
  @Allow('read')
  @ApiOperation({ summary: 'A source: its state, why it fails, and what it has brought.' })
  @ApiSource()
  @ApiResponse({ status: 200, description: 'The source.', schema: SOURCE })
  async one(@Param('name') name: string): Promise<SourceView> {
    return sourceView(await this.find(name));
  }

  @Delete(':name')
  @HttpCode(204)
  @Allow('admin')
  @ApiOperation({
    summary: 'Forget a source that is no longer in LISTENERS_FILE, and the refused messages that it keeps.',
  })
  @ApiSource()
  @ApiResponse({ status: 204, description: 'It is forgotten.' })
  @ApiResponse({ status: 409, description: 'A replica reads it.' })
  async forget(@Param('name') name: string, @Req() request: FastifyRequest): Promise<void> {
    await this.find(name);
    if (!(await this.store.delete(name, request.caller.name)))
      throw new Problem(
        'conflict',
        `A replica reads ${name}: take it out of LISTENERS_FILE and restart the replicas first.`,
      );
  }

  @Get(':name/refused')
  @Allow('read')
  @ApiOperation({ summary: 'Messages of a source that cannot be accepted, newest first, with the reason.' })
  @ApiSource()
  @ApiPage(REFUSED)
  async refused(@Param('name') name: string, @Req() request: FastifyRequest) {
    const page = pageRequest(queryOf(request.query, ['limit', 'cursor']), isNumber);
    await this.find(name);
    const rows = await this.store.refusals(name, page.after ?? NEWEST, page.limit + 1, EXCERPT_BYTES);
    return pageOf(
      rows,
      page.limit,
      ({ number }) => number,
      ({ number, place, reason, headers, at, size, excerpt }) => ({
        ...{ number, place, reason, headers, at, bytes: size },
        excerpt: excerpt.toString(),
      }),
    );
  }

  @Get(':name/refused/:number/body')
  @Allow('read')
  @ApiOperation({ summary: 'The body of a refused message, byte for byte.' })
  @ApiSource()
  @ApiParam({ name: 'number', type: 'integer', description: 'As in the list.' })
  @ApiResponse({
    status: 200,
    description: 'The body.',
    content: { 'application/octet-stream': { schema: { type: 'string' } } },
  })
  @ApiResponse({ status: 404, description: 'The source keeps no such message.' })
  async body(@Param('name') name: string, @Param('number') number: string, @Res() reply: FastifyReply) {
    const body = /^\d{1,15}$/.test(number) ? await this.store.bodyOf(name, Number(number)) : undefined;
    if (!body) throw new Problem('not-found', `The source ${name} keeps no such message.`);
    void reply
      .type('application/octet-stream')
      .header('content-disposition', 'attachment')
      .header('x-content-type-options', 'nosniff')
      .send(body);
  }

  @Post(':name/refused/discard')
  @HttpCode(200)
  @Allow('admin')
  @ApiOperation({ summary: 'Discard refused messages, with a reason.' })
  @ApiSource()
  @ApiResponse({ status: 200, description: 'How many were discarded.', schema: DISCARDED })
  async discard(
    @Param('name') name: string,
    @Body(validBody(Discard)) { numbers, reason }: Discard,
    @Req() request: FastifyRequest,
  ) {
    if (numbers && !numbers.every(isNumber))
      throw new Problem('invalid', '/numbers must be whole numbers.', {
        errors: [{ pointer: '/numbers', detail: 'must be whole numbers' }],
      });
    await this.find(name);
    return { discarded: await this.store.discard(name, numbers, request.caller.name, reason) };
  }

  private async find(name: string): Promise<SourceRow> {
    const [row] = name.includes('\u0000') ? [] : await this.store.list(name);
    if (!row) throw new Problem('not-found', 'No source has this name.');
    return row;
  }
}

function ApiSource(): MethodDecorator {
  return (target, key, descriptor) => {
    ApiParam({ name: 'name', description: 'As in LISTENERS_FILE.' })(target, key, descriptor);
    ApiResponse({ status: 404, description: 'No source has this name.' })(target, key, descriptor);
  };
}

function isNumber(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}

function sourceView({ stored_at, kind, ...row }: SourceRow): SourceView {
  return { ...row, kind: kind as SourceView['kind'], storedAt: stored_at };
}
