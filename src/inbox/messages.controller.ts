import { Controller, Get, Param, Post, Req, Res } from '@nestjs/common';
import { ApiBody, ApiOperation, ApiParam, ApiQuery, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Allow } from '../http/access.ts';
import { ApiPage, pageOf, pageRequest } from '../http/pages.ts';
import { Problem } from '../http/problems.ts';
import { queryOf } from '../http/query.ts';
import { JSON_TEXT, Repeatable } from '../http/repeats.ts';
import { TIME } from '../http/schema.ts';
import { timeParameter } from '../http/time.ts';
import { FanOut } from '../outbox/fan-out/fan-out.ts';
import { WHY, type WhyView } from './holds/holds.openapi.ts';
import { HoldsStore } from './holds/holds-store.ts';
import { explain, explainEnd } from './holds/why.ts';
import { MessageFinder } from './message-finder.ts';
import { messageJson, messageView } from './message-view.ts';
import { MESSAGE_DETAILS, MESSAGE_VIEW } from './messages.openapi.ts';
import { type FoundMessage, MessagesStore, STATUSES, type Status } from './messages-store.ts';
import { ApiPosted, ApiPostedBatch, bodyOf, MESSAGE, MESSAGES_BATCH } from './post-messages.openapi.ts';
import { PostMessages } from './post-messages.ts';
import { readBatch, readPost } from './read-request.ts';

const ApiId = ApiParam({ name: 'id', description: 'The id of the message.' });
const ApiSource = ApiQuery({
  name: 'source',
  required: false,
  description: 'Needed if several sources used the same id; else the own message of the caller is meant.',
});
const NOT_FOUND = 'No message has this id, or its retention is over.';
const AMBIGUOUS = 'Several other sources used this id; `detail` lists them.';

const FILTER_NAMES = ['status', 'type', 'key', 'source', 'since', 'until', 'error'] as const;

@ApiTags('messages')
@Controller('v1/messages')
export class MessagesController {
  constructor(
    private readonly posts: PostMessages,
    private readonly messages: MessagesStore,
    private readonly finder: MessageFinder,
    private readonly holds: HoldsStore,
    private readonly fanOut: FanOut,
  ) {}

  @Post()
  @Allow('produce', 'raw')
  @ApiOperation({
    summary: 'Post a message. 202 means committed and durable.',
    requestBody: bodyOf(MESSAGE),
  })
  @ApiPosted()
  @ApiResponse({ status: 422, description: 'Not valid; `errors` points at each fault.' })
  async post(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    await this.posts.reply(request, reply, readPost);
  }

  @Post('batch')
  @Allow('produce', 'raw-batch')
  @ApiOperation({ summary: 'Post up to 1000 messages, all or nothing.' })
  @ApiBody({ schema: MESSAGES_BATCH })
  @ApiPostedBatch()
  @ApiResponse({ status: 422, description: 'Not valid; `errors` lists every bad item; nothing was stored.' })
  async postBatch(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    await this.posts.reply(request, reply, readBatch);
  }

  @Get(':id')
  @Allow('read')
  @Repeatable({ perCaller: true })
  @ApiOperation({
    summary: 'A message with its deliveries and their attempts, and its status in every consumer group.',
    description:
      'For each delivery, `attempts` has the newest 50 and `attemptsTotal` is the number of all. `deliveries` ends at 1 MiB; `deliveriesTotal` is the number of all.',
  })
  @ApiId
  @ApiSource
  @ApiQuery({ name: 'payload', required: false, enum: ['none'], description: 'Leaves the payload out.' })
  @ApiResponse({ status: 200, description: 'The message.', schema: MESSAGE_DETAILS })
  @ApiResponse({ status: 404, description: NOT_FOUND })
  @ApiResponse({ status: 409, description: AMBIGUOUS })
  async one(
    @Param('id') id: string,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<string> {
    const row = await this.find(id, request, queryOf(request.query, ['source', 'payload']));
    const [deliveries, groups] = await Promise.all([
      this.fanOut.deliveriesOf(row.position),
      this.fanOut.groupsOf(row.position),
    ]);
    reply.type(JSON_TEXT);
    return messageJson(row, { ...deliveries, groups });
  }

  @Get(':id/why')
  @Allow('read')
  @Repeatable({ perCaller: true })
  @ApiOperation({
    summary: 'What a message waits for, which of its deliveries are pending, and what can be done about it.',
  })
  @ApiId
  @ApiSource
  @ApiResponse({ status: 200, description: 'The reasons.', schema: WHY })
  @ApiResponse({ status: 404, description: NOT_FOUND })
  @ApiResponse({ status: 409, description: AMBIGUOUS })
  async why(@Param('id') id: string, @Req() request: FastifyRequest): Promise<WhyView> {
    const { source } = queryOf(request.query, ['source']);
    const message = await this.find(id, request, { source, payload: 'none' });
    const { position } = message;
    const [row, deliveries, groups] = await Promise.all([
      this.holds.why(position),
      this.fanOut.pendingOf(position),
      this.fanOut.groupsOf(position),
    ]);
    if (message.archived) return { ...explainEnd(message), deliveries, groups };
    if (!row) throw new Problem('not-found', NOT_FOUND);
    return { ...explain(row), deliveries, groups };
  }

  @Get()
  @Allow('read')
  @ApiOperation({
    summary: 'Messages, newest first.',
    description: `A page reads about 20,000 messages: if matching ones are rare, it can be short or empty and still have a \`next\`. A scheduled message moves to the front when it becomes due, as if it were posted then: if that happens while pages are read, it is on none of the later ones.`,
  })
  @ApiQuery({
    name: 'status',
    required: false,
    schema: { type: 'string' },
    description: `Only in this status: one of ${STATUSES.join(', ')}; or several, separated by commas.`,
  })
  @ApiQuery({ name: 'type', required: false, description: 'Only of this type.' })
  @ApiQuery({ name: 'key', required: false, description: 'Only of this key.' })
  @ApiQuery({ name: 'source', required: false, description: 'Only of this source.' })
  @ApiQuery({
    name: 'since',
    required: false,
    schema: TIME,
    description: 'Received at or after; RFC 3339.',
  })
  @ApiQuery({ name: 'until', required: false, schema: TIME, description: 'Received before; RFC 3339.' })
  @ApiQuery({
    name: 'error',
    required: false,
    description: 'The fingerprint of a dead letter, or the beginning of an error.',
  })
  @ApiPage(MESSAGE_VIEW)
  async list(@Req() request: FastifyRequest) {
    const query = queryOf(request.query, [...FILTER_NAMES, 'limit', 'cursor']);
    const page = pageRequest(query, (value): value is number => Number.isSafeInteger(value));
    const statuses = statusesOf(query.status);
    const filter = {
      status: statuses?.[0],
      type: query.type,
      key: query.key,
      source: query.source,
      since: timeParameter('since', query.since),
      until: timeParameter('until', query.until),
      error: query.error,
    };
    const limit = page.limit + 1;
    const { rows, edge } =
      statuses && statuses.length > 1
        ? await this.messages.listSeveral(statuses, filter, page.after, limit)
        : await this.messages.list(filter, page.after, limit);
    return pageOf(rows, page.limit, (row) => row.position, messageView, edge);
  }

  private find(
    id: string,
    request: FastifyRequest,
    { source, payload }: { source: string | undefined; payload?: string | undefined },
  ): Promise<FoundMessage> {
    const withPayload = payload === undefined;
    if (!withPayload && payload !== 'none') throw new Problem('invalid', 'payload must be "none".');
    return this.finder.find(id, { source, caller: request.caller, withPayload });
  }
}

/** One status, or several separated by commas. */
function statusesOf(text: string | undefined): Status[] | undefined {
  if (text === undefined) return undefined;
  const statuses = [...new Set(text.split(','))];
  if (statuses.every((one) => (STATUSES as readonly string[]).includes(one))) return statuses as Status[];
  throw new Problem('invalid', `status must be one of ${STATUSES.join(', ')}, or several of them.`);
}
