import { Controller, Get, Inject, Param, Post, Req, Res } from '@nestjs/common';
import {
  ApiBody,
  ApiConsumes,
  ApiHeader,
  ApiOperation,
  ApiParam,
  ApiQuery,
  ApiResponse,
  ApiTags,
} from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { Allow } from '../http/access.ts';
import { ApiPage, pageOf, pageRequest } from '../http/pages.ts';
import { Problem } from '../http/problems.ts';
import { queryOf } from '../http/query.ts';
import { timeParameter } from '../http/time.ts';
import { FanOut } from '../outbox/fan-out/fan-out.ts';
import { refuseForeign } from './foreign-messages.ts';
import { HoldsStore } from './holds/holds-store.ts';
import { explain } from './holds/why.ts';
import { Ingest } from './ingest.ts';
import { IngestMetrics } from './ingest-metrics.ts';
import { isRefusal, type Outcome, type Refusal } from './message-acceptor.ts';
import { messageJson, messageView } from './message-view.ts';
import { ACCEPTED, ACCEPTED_BATCH, CLOUD_EVENT, MESSAGE, MESSAGES_BATCH } from './messages.openapi.ts';
import { type MessageRow, MessagesStore, STATUSES, type Status } from './messages-store.ts';
import { sourceOfCaller } from './new-message.ts';
import { RateLimit } from './rate-limit.ts';
import { type Posted, readBatch, readPost } from './read-request.ts';

const FORBIDDEN =
  'The api key lacks the scope `produce`; or it is bound to other sources or keys (`foreign`), `errors` lists every such message, and nothing was stored.';

@ApiTags('messages')
@Controller('v1/messages')
export class MessagesController {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly ingest: Ingest,
    private readonly rateLimit: RateLimit,
    private readonly metrics: IngestMetrics,
    private readonly messages: MessagesStore,
    private readonly holds: HoldsStore,
    private readonly fanOut: FanOut,
  ) {}

  @Post()
  @Allow('produce', 'raw')
  @ApiOperation({ summary: 'Post a message. 202 means committed and durable.' })
  @ApiConsumes('application/json', 'application/cloudevents+json', 'application/cloudevents-batch+json')
  @ApiHeader({
    name: 'Idempotency-Key',
    required: false,
    description: 'Used as the id if the message has none; up to 200 characters of UTF-8, in a batch 196.',
  })
  @ApiHeader({
    name: 'Producer-Id',
    required: false,
    description:
      'Up to 200 characters of UTF-8; the numbers of one api key and id are one sequence, whatever the source.',
  })
  @ApiHeader({ name: 'Producer-Sequence', required: false, description: 'Counts up by one per message.' })
  @ApiBody({ schema: { oneOf: [MESSAGE, CLOUD_EVENT] } })
  @ApiResponse({ status: 202, description: 'Stored.', schema: ACCEPTED })
  @ApiResponse({ status: 200, description: 'Had been stored before.', schema: ACCEPTED })
  @ApiResponse({ status: 403, description: FORBIDDEN })
  @ApiResponse({ status: 409, description: 'The id is taken by a message with other content.' })
  @ApiResponse({ status: 422, description: 'Not valid; `errors` points at each fault.' })
  @ApiResponse({ status: 503, description: 'Cannot be stored at the moment; `Retry-After` says when.' })
  async post(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const { posted, outcomes } = await this.take(request, readPost);
    if (posted.batch) replyBatch(outcomes, reply);
    else replyOne(outcomes[0]!, reply);
  }

  @Post('batch')
  @Allow('produce', 'raw-batch')
  @ApiOperation({ summary: 'Post up to 1000 messages, all or nothing.' })
  @ApiBody({ schema: MESSAGES_BATCH })
  @ApiResponse({
    status: 202,
    schema: ACCEPTED_BATCH,
    description: 'Stored, or stored before, as each item says.',
  })
  @ApiResponse({ status: 403, description: FORBIDDEN })
  @ApiResponse({
    status: 409,
    description: 'An id is taken by a message with other content; nothing was stored.',
  })
  @ApiResponse({ status: 422, description: 'Not valid; `errors` lists every bad item; nothing was stored.' })
  async postBatch(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const { outcomes } = await this.take(request, readBatch);
    replyBatch(outcomes, reply);
  }

  @Get(':id')
  @Allow('read')
  @ApiOperation({
    summary: 'A message with its deliveries and their attempts.',
    description: 'For each delivery, `attempts` has the newest 50 and `attemptsTotal` is the number of all.',
  })
  @ApiParam({ name: 'id' })
  @ApiQuery({ name: 'source', required: false, description: 'Where several sources used the same id.' })
  async one(
    @Param('id') id: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const row = await this.find(id, request);
    void reply
      .type('application/json; charset=utf-8')
      .send(messageJson(row, await this.fanOut.deliveriesOf(row.position)));
  }

  @Get(':id/why')
  @Allow('read')
  @ApiOperation({
    summary: 'What a message waits for, which of its deliveries are pending, and what can be done about it.',
  })
  @ApiParam({ name: 'id' })
  @ApiQuery({ name: 'source', required: false })
  async why(@Param('id') id: string, @Req() request: FastifyRequest) {
    const { position } = await this.find(id, request);
    const [row, deliveries] = await Promise.all([this.holds.why(position), this.fanOut.pendingOf(position)]);
    if (!row) throw new Problem('not-found', 'No message has this id, or its retention is over.');
    return { ...explain(row), deliveries };
  }

  @Get()
  @Allow('read')
  @ApiOperation({
    summary: 'Messages, newest first.',
    description: `A page reads about 20,000 messages: if matching ones are rare, it can be short or empty and still have a \`next\`. A scheduled message moves to the front when it becomes due, as if it were posted then: if that happens while pages are read, it is on none of the later ones.`,
  })
  @ApiQuery({ name: 'status', required: false, enum: STATUSES })
  @ApiQuery({ name: 'type', required: false })
  @ApiQuery({ name: 'key', required: false })
  @ApiQuery({ name: 'since', required: false, description: 'Received at or after; RFC 3339.' })
  @ApiPage()
  async list(@Req() request: FastifyRequest) {
    const query = queryOf(request.query, ['status', 'type', 'key', 'since', 'limit', 'cursor']);
    const page = pageRequest(query, (value): value is number => Number.isSafeInteger(value));
    const filter = {
      status: statusOf(query.status),
      type: query.type,
      key: query.key,
      since: timeParameter('since', query.since),
    };
    const { rows, edge } = await this.messages.list(filter, page.after, page.limit + 1);
    return pageOf(rows, page.limit, (row) => row.position, messageView, edge);
  }

  /** By id; if several sources used it, the message of the requested source or the caller's own one. */
  private async find(id: string, request: FastifyRequest): Promise<MessageRow & { payload: string }> {
    const { source } = queryOf(request.query, ['source']);
    const rows = id.includes('\u0000') ? [] : await this.messages.find(id, source);
    const own = sourceOfCaller(request.caller.name);
    const row = rows.length > 1 ? rows.find((one) => one.source === own) : rows[0];
    if (row) return row;
    if (rows.length === 0)
      throw new Problem('not-found', 'No message has this id, or its retention is over.');
    const sources = rows.map((one) => one.source).join(', ');
    throw new Problem('conflict', `Several sources used this id; add ?source= with one of: ${sources}`);
  }

  private async take(
    request: FastifyRequest,
    read: typeof readPost,
  ): Promise<{ posted: Posted; outcomes: readonly Outcome[] }> {
    const posted = read(request.headers, request.body, request.caller.name, this.settings.bodyLimit);
    refuseForeign(posted, request.caller);
    this.rateLimit.take(request.caller.name, posted.messages.length);
    const outcomes = await this.ingest.post(posted);
    refuseConflicts(outcomes, posted);
    this.metrics.count(outcomes);
    return { posted, outcomes };
  }
}

function replyOne(outcome: Outcome, reply: FastifyReply): void {
  void reply
    .code(outcome.kind === 'accepted' ? 202 : 200)
    .header('location', `/v1/messages/${encodeURIComponent(outcome.id)}`)
    .send(replyBody(outcome));
}

function replyBatch(outcomes: readonly Outcome[], reply: FastifyReply): void {
  void reply.code(202).send({ messages: outcomes.map(replyBody) });
}

function replyBody(outcome: Outcome) {
  // A refusal has been thrown before.
  const { kind, id, status, gap, gapFilled } = outcome as Exclude<Outcome, Refusal>;
  return {
    id,
    status,
    ...(kind === 'duplicate' ? { duplicate: true } : {}),
    ...(gap ? { gap } : {}),
    ...(gapFilled ? { gapFilled } : {}),
  };
}

function refuseConflicts(outcomes: readonly Outcome[], { batch, pointer }: Posted): void {
  const errors = outcomes.flatMap((outcome, index) =>
    isRefusal(outcome) ? [{ pointer: batch ? `${pointer}/${index}` : '', detail: reasonOf(outcome) }] : [],
  );
  if (errors.length) throw new Problem('conflict', errors[0]!.detail, { errors });
}

function reasonOf(outcome: Outcome): string {
  return outcome.kind === 'too-many-gaps'
    ? 'This producer skipped too many numbers; continue with a new Producer-Id.'
    : `The id "${outcome.id}" is taken by a message with other content.`;
}

function statusOf(text: string | undefined): Status | undefined {
  if (text === undefined || (STATUSES as readonly string[]).includes(text)) return text as Status | undefined;
  throw new Problem('invalid', `status must be one of ${STATUSES.join(', ')}.`);
}
