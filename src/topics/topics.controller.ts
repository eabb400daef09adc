import { Body, Controller, Delete, Get, HttpCode, Inject, Param, Put, Req, Res } from '@nestjs/common';
import { ApiBody, ApiOperation, ApiQuery, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { Allow } from '../http/access.ts';
import { PAGE_BYTES } from '../http/page-bytes.ts';
import { ApiPage, pageByName } from '../http/pages.ts';
import { Problem } from '../http/problems.ts';
import { queryOf } from '../http/query.ts';
import { Repeatable } from '../http/repeats.ts';
import { COUNT, LOCATION } from '../http/schema.ts';
import { BrowseStore } from './browse-store.ts';
import { keptForMs } from './kept-for.ts';
import { TopicChanges } from './topic-changes.ts';
import { checkTopic, TopicDefinition, topicView } from './topic-definition.ts';
import { ApiNewTopic, ApiTopic, BROWSED, TOPIC } from './topics.openapi.ts';
import { type Tail, type TopicRow, TopicsStore } from './topics-store.ts';

const MAX_BROWSED = 500;
const DEFAULT_BROWSED = 50;

@ApiTags('topics')
@Controller('v1/topics')
export class TopicsController {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly changes: TopicChanges,
    private readonly store: TopicsStore,
    private readonly entries: BrowseStore,
  ) {}

  @Put(':topic')
  @Allow('admin')
  @ApiOperation({ summary: 'Create a topic (201) or change its types and retention (200).' })
  @ApiNewTopic
  @ApiBody({ type: TopicDefinition, required: false })
  @ApiResponse({ status: 200, description: 'Changed.', schema: TOPIC })
  @ApiResponse({
    status: 201,
    description: 'Created: it gets the messages that are applied from now on.',
    schema: TOPIC,
    headers: LOCATION,
  })
  @ApiResponse({
    status: 409,
    description:
      'It has another number of partitions (`partitions-fixed`), or comes from LISTENERS_FILE (`conflict`).',
  })
  @ApiResponse({ status: 422, description: 'Not valid; `errors` points at each fault.' })
  async put(
    @Param('topic') name: string,
    @Body() body: unknown,
    @Req() { caller }: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const definition = await checkTopic(name, body);
    const { created } = await this.changes.put(name, definition, caller.name);
    if (created) void reply.code(201).header('location', `/v1/topics/${name}`);
    return this.view(await this.store.withTails(name));
  }

  @Get()
  @Allow('read')
  @Repeatable()
  @ApiOperation({ summary: 'All topics, by name.' })
  @ApiPage(TOPIC)
  async list(@Req() request: FastifyRequest) {
    return pageByName(
      request.query,
      (after, limit) => this.store.page(after, limit),
      (row) => this.view(row),
    );
  }

  @Get(':topic')
  @Allow('read')
  @Repeatable()
  @ApiOperation({ summary: 'A topic with the earliest and the next offset of each partition.' })
  @ApiTopic
  @ApiResponse({ status: 200, description: 'The topic.', schema: TOPIC })
  async one(@Param('topic') name: string) {
    return this.view(await this.store.withTails(name));
  }

  @Delete(':topic')
  @HttpCode(204)
  @Allow('admin')
  @ApiOperation({
    summary: 'Delete a topic with its offsets. One of the same name that is created later is another topic.',
  })
  @ApiTopic
  @ApiResponse({ status: 204, description: 'Deleted.' })
  @ApiResponse({ status: 409, description: 'It comes from LISTENERS_FILE, or belongs to a group.' })
  async remove(@Param('topic') name: string, @Req() { caller }: FastifyRequest): Promise<void> {
    await this.changes.remove(name, caller.name);
  }

  @Get(':topic/messages')
  @Allow('read')
  @ApiOperation({
    summary: 'Messages of a partition from an offset on, without a group.',
    description: `A page ends at ${PAGE_BYTES / 1024 / 1024} MiB; continue with \`from\` = \`to\` + 1.`,
  })
  @ApiTopic
  @ApiQuery({
    name: 'partition',
    required: false,
    schema: { ...COUNT, default: 0 },
    description: 'The number of a partition.',
  })
  @ApiQuery({
    name: 'from',
    required: false,
    schema: COUNT,
    description: 'An offset. Default: the earliest one.',
  })
  @ApiQuery({
    name: 'limit',
    required: false,
    schema: { type: 'integer', minimum: 1, maximum: MAX_BROWSED, default: DEFAULT_BROWSED },
    description: 'Maximum number of messages.',
  })
  @ApiResponse({ status: 200, description: 'The messages, in the order of their offsets.', schema: BROWSED })
  async browse(@Param('topic') name: string, @Req() request: FastifyRequest, @Res() reply: FastifyReply) {
    const query = queryOf(request.query, ['partition', 'from', 'limit']);
    const topic = await this.store.existing(name);
    const partition = wholeParameter('partition', query.partition ?? '0', 0, topic.partitions - 1);
    const from = wholeParameter('from', query.from ?? '0', 0, Number.MAX_SAFE_INTEGER);
    const limit = wholeParameter('limit', query.limit ?? String(DEFAULT_BROWSED), 1, MAX_BROWSED);
    const text = await this.entries.browse(topic, partition, from, limit);
    void reply.type('application/json; charset=utf-8').send(text);
  }

  private view(row: TopicRow & { readonly tails: readonly Tail[] }) {
    return topicView(row, keptForMs(row, this.settings));
  }
}

function wholeParameter(name: string, text: string, min: number, max: number): number {
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new Problem('invalid', `${name} must be a whole number from ${min} to ${max}.`);
}
