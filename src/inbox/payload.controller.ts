import { Controller, Get, Param, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiParam, ApiQuery, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Allow } from '../http/access.ts';
import { Problem } from '../http/problems.ts';
import { queryOf } from '../http/query.ts';
import { MessageFinder } from './message-finder.ts';

const MAX_NAME = 100;

@ApiTags('messages')
@Controller('v1/messages/:id/payload')
export class PayloadController {
  constructor(private readonly messages: MessageFinder) {}

  @Get()
  @Allow('read')
  @ApiOperation({
    summary: 'The payload of a message, exactly as it was posted, as a file.',
    description: 'The header `payload-bytes` is the size of the whole payload.',
  })
  @ApiParam({ name: 'id', description: 'The id of the message.' })
  @ApiQuery({ name: 'source', required: false, description: 'Where several sources used the same id.' })
  @ApiQuery({
    name: 'limit',
    required: false,
    schema: { type: 'integer', minimum: 1 },
    description: 'Max bytes: the payload is cut off there, at the end of a character.',
  })
  @ApiResponse({
    status: 200,
    content: {
      'application/json': { schema: { description: 'Any JSON value.' } },
      'text/plain': { schema: { type: 'string', description: 'Cut off at `limit`, so no JSON.' } },
    },
    description: 'The payload, or its beginning.',
  })
  async read(
    @Param('id') id: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const { source, limit } = queryOf(request.query, ['source', 'limit']);
    const maxBytes = limitOf(limit);
    const { payload } = await this.messages.find(id, { source, caller: request.caller, withPayload: true });
    const bytes = Buffer.from(payload!);
    const isCut = maxBytes !== undefined && maxBytes < bytes.length;
    const type = isCut ? 'text/plain' : 'application/json';
    void reply
      .headers({
        'content-type': `${type}; charset=utf-8`,
        'content-disposition': `attachment; filename="${fileNameOf(id)}.json"`,
        'payload-bytes': bytes.length,
      })
      .send(isCut ? cutOff(bytes, maxBytes) : payload!);
  }
}

function limitOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text);
  throw new Problem('invalid', 'limit must be a whole number of bytes, at least 1.');
}

/** The bytes 10xxxxxx continue a character. */
function cutOff(bytes: Buffer, maxBytes: number): string {
  let end = maxBytes;
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end -= 1;
  return bytes.toString('utf8', 0, end);
}

/** A message id may contain anything. */
function fileNameOf(id: string): string {
  return id.replaceAll(/[^\w.-]/g, '_').slice(0, MAX_NAME);
}
