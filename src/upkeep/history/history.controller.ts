import { Controller, Delete, Get, Param, Post, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiParam, ApiQuery, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Allow } from '../../http/access.ts';
import { Problem } from '../../http/problems.ts';
import { queryOf } from '../../http/query.ts';
import { ERASED, HISTORY, type HistoryView, IMPORTED, LINES, LINES_BODY } from './history.openapi.ts';
import { HistoryExport } from './history-export.ts';
import { HistoryImport, type Imported, MAX_LINES } from './history-import.ts';
import { HistoryStatus } from './history-status.ts';
import { KeyErasure } from './key-erasure.ts';

const NDJSON = 'application/x-ndjson';
const MAX_PAGE = 10_000;
const DEFAULT_PAGE = 1_000;
const MAX_KEY = 256;
const NO_BODY = Buffer.alloc(0);

@ApiTags('history')
@Controller('v1/history')
export class HistoryController {
  constructor(
    private readonly status: HistoryStatus,
    private readonly exports: HistoryExport,
    private readonly imports: HistoryImport,
    private readonly erasure: KeyErasure,
  ) {}

  @Get()
  @Allow('read')
  @ApiOperation({ summary: 'How much is in history, and from when it is complete.' })
  @ApiResponse({ status: 200, description: 'The totals, and each pattern of HISTORY.', schema: HISTORY })
  view(@Req() request: FastifyRequest): Promise<HistoryView> {
    queryOf(request.query, []);
    return this.status.view();
  }

  @Get('messages')
  @Allow('read')
  @ApiOperation({
    summary: 'Finished messages of history and inbox, one per line.',
    description:
      'Messages of a key are in the order of application. A payload is the text that was posted; one with line breaks is in `payloadText`, as a string. The pages of an export have what was applied when its first page was read. To continue after the last line of an export: the cursor is `<lane / 16, rounded down>-<applied>-<position>` of that line.',
  })
  @ApiQuery({
    name: 'cursor',
    required: false,
    description: 'The header `next-cursor` of the previous page.',
  })
  @ApiQuery({
    name: 'limit',
    required: false,
    schema: { type: 'integer', minimum: 1, maximum: MAX_PAGE, default: DEFAULT_PAGE },
    description: 'Max lines. A page also ends at about 8 MiB.',
  })
  @ApiQuery({
    name: 'types',
    required: false,
    description: 'Types, or patterns with `*`, separated by commas.',
  })
  @ApiResponse({ status: 200, description: 'A page.', ...LINES })
  async lines(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const { cursor, limit, types } = queryOf(request.query, ['cursor', 'limit', 'types']);
    const max = numberOf('limit', limit ?? String(DEFAULT_PAGE), MAX_PAGE);
    const page = await this.exports.page({ cursorText: cursor, limit: max, types: types?.split(',') });
    if (page.next !== undefined) reply.header('next-cursor', page.next);
    void reply.type(`${NDJSON}; charset=utf-8`).send(page.lines);
  }

  @Post('import')
  @Allow('admin', 'raw-batch')
  @ApiOperation({
    summary: 'Bring messages into history, without processing them. All of a request, or none.',
    description: `Up to ${MAX_LINES} lines as GET /v1/history/messages returns them. Each needs an \`id\`, a \`type\` that HISTORY has and a \`payload\`; \`source\` is that of the API key if absent, \`receivedAt\` is now. \`lane\`, \`position\` and \`applied\` are ignored: imported messages come before all others, in the order in which they are imported.`,
    requestBody: LINES_BODY,
  })
  @ApiQuery({
    name: 'dryRun',
    required: false,
    enum: ['true', 'false'],
    description: 'Only check the lines.',
  })
  @ApiQuery({
    name: 'firstLine',
    required: false,
    schema: { type: 'integer', minimum: 1, default: 1 },
    description: 'The number of the first line, for errors: the part of a larger file.',
  })
  @ApiResponse({ status: 200, description: 'Imported.', schema: IMPORTED })
  @ApiResponse({
    status: 409,
    description: 'A line has the identity of another message. Nothing was imported.',
  })
  @ApiResponse({ status: 422, description: 'Bad lines; `errors` points at each. Nothing was imported.' })
  async import(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const { dryRun = 'false', firstLine = '1' } = queryOf(request.query, ['dryRun', 'firstLine']);
    if (dryRun !== 'true' && dryRun !== 'false')
      throw new Problem('invalid', 'dryRun must be true or false.');
    if (!request.headers['content-type']?.startsWith(NDJSON))
      throw new Problem('unsupported-media-type', `The Content-Type must be ${NDJSON}.`);
    const imported: Imported = await this.imports.run({
      body: Buffer.isBuffer(request.body) ? request.body : NO_BODY,
      caller: request.caller.name,
      firstLine: numberOf('firstLine', firstLine, Number.MAX_SAFE_INTEGER),
      dryRun: dryRun === 'true',
    });
    void reply.code(200).send(imported);
  }

  @Delete('keys/:key')
  @Allow('admin', 'none')
  @ApiOperation({
    summary: 'Erase the messages of a key from history.',
    description:
      'Their ids are forgotten as well. Messages of the key that are still in the inbox are not erased: they are moved to history after their retention, so repeat the request then.',
  })
  @ApiParam({ name: 'key', description: 'The key of messages.' })
  @ApiQuery({ name: 'reason', required: false, description: 'For the audit log.' })
  @ApiResponse({ status: 200, description: 'Erased.', schema: ERASED })
  async erase(@Param('key') key: string, @Req() request: FastifyRequest) {
    const { reason } = queryOf(request.query, ['reason']);
    if (key.includes('\u0000') || key.length > MAX_KEY)
      throw new Problem('not-found', 'No message can have this key.');
    return this.erasure.erase({ key, by: request.caller.name, reason });
  }
}

function numberOf(name: string, text: string, max: number): number {
  const value = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : Number.NaN;
  if (value <= max) return value;
  throw new Problem('invalid', `${name} must be a whole number, 1 to ${max}.`);
}
