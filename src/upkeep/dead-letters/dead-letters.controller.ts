import { Body, Controller, Delete, Get, HttpCode, Param, Post, Req, Res } from '@nestjs/common';
import { ApiBody, ApiOperation, ApiParam, ApiQuery, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Allow } from '../../http/access.ts';
import { ApiPage, LIMIT, pageOf, pageRequest } from '../../http/pages.ts';
import { invalidFields, Problem } from '../../http/problems.ts';
import { queryOf } from '../../http/query.ts';
import { Repeatable } from '../../http/repeats.ts';
import { validated, validBody } from '../../http/valid-body.ts';
import { MAX_ATTEMPTS } from '../../outbox/fan-out/delivery-view.ts';
import { type ActionKind, actionView } from './dead-letter-action.ts';
import { DeadLetterActionStore, NotDead } from './dead-letter-action-store.ts';
import { DeadLetterActions } from './dead-letter-actions.ts';
import { checkedFilter, DeadLetterFilter, FILTER_NAMES, STAGES, type Stage } from './dead-letter-filter.ts';
import { ActOnMany, ApiFilter, ApiStarted, ApiWhich, MAX_REASON, Reason } from './dead-letter-requests.ts';
import { deadLetterJson, deadLetterView } from './dead-letter-view.ts';
import {
  ACTION,
  type ActionView,
  DEAD_LETTER,
  DEAD_LETTER_DETAILS,
  DEAD_LETTER_GROUPS,
  type DeadLetterGroups,
  REVIVED,
  type RevivedDeadLetter,
  type StartedOrCounted,
} from './dead-letters.openapi.ts';
import { type DeadLetterCursor, DeadLettersStore, type FoundRow } from './dead-letters-store.ts';

@ApiTags('dead letters')
@Controller('v1/dead-letters')
export class DeadLettersController {
  constructor(
    private readonly deadLetters: DeadLettersStore,
    private readonly actions: DeadLetterActions,
    private readonly actionStore: DeadLetterActionStore,
  ) {}

  @Get()
  @Allow('read')
  @ApiOperation({ summary: 'List dead letters of all stages, newest first.' })
  @ApiFilter()
  @ApiPage(DEAD_LETTER)
  async list(@Req() request: FastifyRequest) {
    const query = queryOf(request.query, [...FILTER_NAMES, 'limit', 'cursor']);
    const page = pageRequest(query, isCursor);
    const rows = await this.deadLetters.list(await this.filterOf(query), page.after, page.limit + 1);
    return pageOf(
      rows,
      page.limit,
      ({ micros, stage, position }) => [micros, stage, position],
      deadLetterView,
    );
  }

  @Get('groups')
  @Allow('read')
  @Repeatable()
  @ApiOperation({
    summary:
      'Group dead letters by similar errors, per stage and listener or consumer group. The most frequent one is first.',
  })
  @ApiFilter()
  @ApiQuery(LIMIT)
  @ApiResponse({ status: 200, description: 'The groups.', schema: DEAD_LETTER_GROUPS })
  async groups(@Req() request: FastifyRequest): Promise<DeadLetterGroups> {
    const query = queryOf(request.query, [...FILTER_NAMES, 'limit']);
    const { limit } = pageRequest({ limit: query.limit }, (_): _ is never => false);
    const rows = await this.deadLetters.groups(await this.filterOf(query), limit);
    const items = rows.map(({ listener, group, ...errors }) => ({
      ...errors,
      ...(listener === null ? {} : { listener }),
      ...(group === null ? {} : { group }),
    }));
    return { items, next: null };
  }

  @Post('revive')
  @HttpCode(202)
  @Allow('admin')
  @ApiOperation({
    summary:
      'Revive all dead letters that match a filter: they run again, in order per key. Those of a group are handed out to that group again.',
  })
  @ApiStarted()
  reviveMany(
    @Body(validBody(ActOnMany)) body: ActOnMany,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    return this.actOnMany('revive', body, request, reply);
  }

  @Post('discard')
  @HttpCode(202)
  @Allow('admin')
  @ApiOperation({
    summary: 'Discard all dead letters that match a filter, with a reason. Messages behind them continue.',
  })
  @ApiStarted()
  discardMany(
    @Body(validBody(ActOnMany)) body: ActOnMany,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    if (body.reason === undefined && !body.dryRun)
      throw new Problem('invalid', '/reason is required to discard by filter.', {
        errors: [{ pointer: '/reason', detail: 'is required' }],
      });
    return this.actOnMany('discard', body, request, reply);
  }

  @Get('rulings/:id')
  @Allow('read')
  @ApiOperation({ summary: 'The progress of a revive or discard by filter.' })
  @ApiParam({ name: 'id', description: 'The `id` of the revive or discard.' })
  @ApiResponse({ status: 200, description: 'The progress.', schema: ACTION })
  @ApiResponse({ status: 404, description: 'No revive or discard has this id.' })
  async progress(@Param('id') id: string): Promise<ActionView> {
    const row = /^\d{1,15}$/.test(id) ? await this.actionStore.progress(Number(id)) : undefined;
    if (!row) throw new Problem('not-found', 'No revive or discard has this id.');
    return actionView(row);
  }

  @Get(':id')
  @Allow('read')
  @ApiOperation({
    summary:
      'A dead letter with its payload and attempts, by the id of the message, of the delivery, or of the rejection.',
    description: `\`attempts\` has the newest ${MAX_ATTEMPTS}; \`attemptsTotal\` is the number of all attempts.`,
  })
  @ApiWhich()
  @ApiResponse({ status: 200, description: 'The dead letter.', schema: DEAD_LETTER_DETAILS })
  async one(
    @Param('id') id: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const query = queryOf(request.query, ['stage', 'source']);
    const row = await this.find(id, query);
    void reply.type('application/json; charset=utf-8').send(deadLetterJson(row));
  }

  @Post(':id/revive')
  @HttpCode(200)
  @Allow('admin')
  @ApiOperation({
    summary:
      'Revive a dead letter: it runs again, with a new set of attempts, before the messages behind it.',
  })
  @ApiWhich()
  @ApiBody({ type: Reason, required: false })
  @ApiResponse({ status: 200, description: 'Revived; it waits for its turn.', schema: REVIVED })
  async revive(
    @Param('id') id: string,
    @Body() body: unknown,
    @Req() request: FastifyRequest,
  ): Promise<RevivedDeadLetter> {
    const query = queryOf(request.query, ['stage', 'source']);
    const { reason } = await validated(Reason, body ?? {});
    const { stage } = await this.actOnOne('revive', id, query, reason, request);
    return { id, stage, status: stage === 'group' ? 'revived' : 'held' };
  }

  @Delete(':id')
  @HttpCode(204)
  @Allow('admin')
  @ApiOperation({
    summary: 'Discard a dead letter: it stays on record, and the messages behind it continue.',
  })
  @ApiQuery({
    name: 'reason',
    required: false,
    schema: { type: 'string', minLength: 1, maxLength: MAX_REASON },
    description: 'The reason, kept on record; may also be in the body.',
  })
  @ApiWhich()
  @ApiBody({ type: Reason, required: false })
  @ApiResponse({ status: 204, description: 'Discarded.' })
  async discard(
    @Param('id') id: string,
    @Body() body: unknown,
    @Req() request: FastifyRequest,
  ): Promise<void> {
    const query = queryOf(request.query, ['reason', 'stage', 'source']);
    const inQuery = query.reason === undefined ? {} : { reason: query.reason };
    const { reason } = await validated(Reason, { ...inQuery, ...((body as object) ?? {}) });
    await this.actOnOne('discard', id, query, reason, request);
  }

  private async actOnOne(
    kind: ActionKind,
    id: string,
    query: { stage: string | undefined; source: string | undefined },
    reason: string | undefined,
    { caller }: FastifyRequest,
  ): Promise<FoundRow> {
    const row = await this.find(id, query);
    try {
      await this.actions.applyToOne(row, { kind, reason, by: caller.name });
    } catch (error) {
      if (error instanceof NotDead) throw notDead('changed concurrently');
      throw error;
    }
    return row;
  }

  private async actOnMany(
    kind: ActionKind,
    { filter: given, reason, dryRun }: ActOnMany,
    { caller }: FastifyRequest,
    reply: FastifyReply,
  ): Promise<StartedOrCounted> {
    const filter = await this.known(checkedFilter(given, '/filter'), '/filter');
    if (dryRun) {
      void reply.code(200);
      return { matched: await this.deadLetters.count(filter), dryRun: true };
    }
    const { id, matched } = await this.actions.applyToMany(filter, { kind, reason, by: caller.name });
    return { id: String(id), matched, location: `/v1/dead-letters/rulings/${id}` };
  }

  /** The dead letter with this id, which several sources and stages may have used. */
  private async find(
    id: string,
    { stage, source }: { stage: string | undefined; source: string | undefined },
  ): Promise<FoundRow> {
    const rows = id.includes('\u0000') ? [] : await this.deadLetters.find(id, stageOf(stage), source);
    const dead = rows.filter(({ status }) => status === 'dead');
    if (dead.length === 1) return dead[0]!;
    if (rows.length === 0) throw new Problem('not-found', 'No dead letter has this id.');
    if (dead.length === 0) throw notDead(rows.map(({ status }) => status).join(', '));
    const places = dead.map((row) => `stage=${row.stage}&source=${row.source}`).join(', ');
    throw new Problem('conflict', `Several dead letters have this id. Add one of: ${places}`);
  }

  private async filterOf(query: { readonly [K in (typeof FILTER_NAMES)[number]]: string | undefined }) {
    const given = FILTER_NAMES.filter((name) => query[name] !== undefined);
    const filter = await validated(
      DeadLetterFilter,
      Object.fromEntries(given.map((name) => [name, query[name]])),
    );
    return this.known(checkedFilter(filter), '');
  }

  /** An unknown listener or group is reported as a mistake instead of returning an empty list. */
  private async known(filter: DeadLetterFilter, at: string): Promise<DeadLetterFilter> {
    for (const what of ['listener', 'group'] as const) {
      const name = filter[what];
      if (name === undefined || (await this.deadLetters.exists(what, name))) continue;
      const detail = `is not a known ${what}: "${name}"`;
      throw invalidFields([{ pointer: `${at}/${what}`, detail }]);
    }
    return filter;
  }
}

function notDead(status: string): Problem {
  return new Problem('conflict', `This is no longer a dead letter (${status}).`);
}

function stageOf(text: string | undefined): Stage | undefined {
  const stage = STAGES.find((one) => one === text);
  if (text !== undefined && stage === undefined)
    throw new Problem('invalid', `stage must be one of ${STAGES.join(', ')}.`);
  return stage;
}

function isCursor(value: unknown): value is DeadLetterCursor {
  return (
    Array.isArray(value) &&
    value.length === 3 &&
    Number.isSafeInteger(value[0]) &&
    STAGES.includes(value[1]) &&
    Number.isSafeInteger(value[2])
  );
}
