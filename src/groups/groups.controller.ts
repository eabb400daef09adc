import { Body, Controller, Delete, Get, HttpCode, Param, Post, Put, Req, Res } from '@nestjs/common';
import { ApiBody, ApiOperation, ApiParam, ApiPropertyOptional, ApiResponse, ApiTags } from '@nestjs/swagger';
import { IsString, Length } from 'class-validator';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Allow } from '../http/access.ts';
import { Optional } from '../http/optional.ts';
import { ApiPage, pageByName } from '../http/pages.ts';
import { Repeatable } from '../http/repeats.ts';
import { LOCATION } from '../http/schema.ts';
import { onUnread } from '../http/unread-response.ts';
import { validated, validBody } from '../http/valid-body.ts';
import { Commits } from './commits.ts';
import { GroupChanges } from './group-changes.ts';
import { checkGroup, definitionView, GroupDefinition } from './group-definition.ts';
import { GroupViews } from './group-views.ts';
import {
  ApiGroup,
  ApiNewGroup,
  COMMITTED_OFFSETS,
  GROUP,
  GROUP_DEFINITION,
  JOINED,
  LISTED_GROUP,
  type ListedGroup,
  POLLED,
  SOUGHT,
} from './groups.openapi.ts';
import { GroupsStore, groupName, memberUnknown } from './groups-store.ts';
import { Memberships } from './memberships.ts';
import { CommitRequest, checkItems, PollRequest } from './poll-request.ts';
import { outcomeView } from './poll-view.ts';
import { Polls } from './polls.ts';
import { SeekRequest, Seeks } from './seeks.ts';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const NO_GROUP = 'No group has this name.';
const NO_GROUP_OR_MEMBER =
  'No such group (`not-found`); or `member-unknown`: drop everything and join again.';

export class JoinRequest {
  @ApiPropertyOptional({
    minLength: 1,
    maxLength: 200,
    example: 'billing-7f9c',
    description: 'For operators.',
  })
  @Optional()
  @IsString()
  @Length(1, 200)
  name?: string;
}

@ApiTags('groups')
@Controller('v1/groups')
export class GroupsController {
  constructor(
    private readonly changes: GroupChanges,
    private readonly store: GroupsStore,
    private readonly views: GroupViews,
    private readonly memberships: Memberships,
    private readonly polls: Polls,
    private readonly commits: Commits,
    private readonly seeks: Seeks,
  ) {}

  @Put(':group')
  @Allow('admin')
  @ApiOperation({ summary: 'Create a consumer group (201) or change it (200).' })
  @ApiNewGroup
  @ApiBody({ type: GroupDefinition })
  @ApiResponse({ status: 201, description: 'Created.', schema: GROUP_DEFINITION, headers: LOCATION })
  @ApiResponse({ status: 200, description: 'Changed.', schema: GROUP_DEFINITION })
  @ApiResponse({ status: 409, description: 'Comes from LISTENERS_FILE.' })
  @ApiResponse({ status: 422, description: 'Not valid, or names a topic that does not exist.' })
  async put(
    @Param('group') name: string,
    @Body() body: unknown,
    @Req() { caller }: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const definition = await checkGroup(name, body);
    const { created, row } = await this.changes.put(name, definition, caller.name);
    if (created) void reply.code(201).header('location', `/v1/groups/${name}`);
    return definitionView(row);
  }

  @Get()
  @Allow('read')
  @Repeatable()
  @ApiOperation({ summary: 'All groups, by name, with their lag and the number of live members.' })
  @ApiPage(LISTED_GROUP)
  async list(@Req() request: FastifyRequest) {
    return pageByName(
      request.query,
      async (after, limit) => this.views.withLags(await this.store.page(after, limit)),
      ({ lag, lagSeconds, members, ...row }): ListedGroup => ({
        ...definitionView(row),
        ...{ lag, lagSeconds, members },
      }),
    );
  }

  @Get(':group')
  @Allow('read')
  @Repeatable()
  @ApiOperation({
    summary: 'A group with its members, and for each partition how far it is and who reads it.',
  })
  @ApiGroup
  @ApiResponse({ status: 200, description: 'The group.', schema: GROUP })
  @ApiResponse({ status: 404, description: NO_GROUP })
  async one(@Param('group') name: string) {
    const row = await this.store.existing(name);
    return { ...definitionView(row), ...(await this.views.detailsOf(row)) };
  }

  @Delete(':group')
  @HttpCode(204)
  @Allow('admin')
  @ApiOperation({ summary: 'Delete a group and its offsets. Its dead letters stay readable as a topic.' })
  @ApiGroup
  @ApiResponse({ status: 204, description: 'Deleted.' })
  @ApiResponse({ status: 404, description: NO_GROUP })
  @ApiResponse({ status: 409, description: 'Comes from LISTENERS_FILE.' })
  async remove(@Param('group') name: string, @Req() { caller }: FastifyRequest): Promise<void> {
    await this.changes.remove(name, caller.name);
  }

  @Post(':group/members')
  @HttpCode(201)
  @Allow('consume')
  @ApiOperation({ summary: 'Join: a new member with the partitions that are free for it.' })
  @ApiGroup
  @ApiBody({ type: JoinRequest, required: false })
  @ApiResponse({ status: 201, description: 'The new member.', schema: JOINED })
  @ApiResponse({ status: 404, description: NO_GROUP })
  @ApiResponse({ status: 409, description: 'The group is full.' })
  async join(@Param('group') group: string, @Body() body: unknown) {
    const { name } = await validated(JoinRequest, body ?? {});
    return this.memberships.join(group, name);
  }

  @Delete(':group/members/:member')
  @HttpCode(204)
  @Allow('consume')
  @ApiOperation({ summary: 'Leave: the partitions of the member are free at once.' })
  @ApiGroup
  @ApiParam({ name: 'member', description: 'The id of the member.' })
  @ApiResponse({ status: 204, description: 'Left.' })
  @ApiResponse({ status: 404, description: 'No such group (`not-found`) or member (`member-unknown`).' })
  async leave(@Param('group') group: string, @Param('member') member: string): Promise<void> {
    await this.store.existing(group);
    await this.memberships.leave(group, memberId(member));
  }

  @Post(':group/poll')
  @HttpCode(200)
  @Allow('consume')
  @ApiOperation({
    summary: 'The next messages of the partitions of a member; waits for some, up to `wait`.',
    description:
      'Also a heartbeat; with `max` 0 only that. Commits first what `commit` says. A response that the client cannot read is taken back.',
  })
  @ApiGroup
  @ApiBody({ type: PollRequest })
  @ApiResponse({ status: 200, description: 'The messages, a batch per partition.', schema: POLLED })
  @ApiResponse({
    status: 404,
    description: NO_GROUP_OR_MEMBER,
  })
  @ApiResponse({
    status: 409,
    description:
      '`poll-in-progress`: another poll of the member is open, or one with `next` replaced this one.',
  })
  @ApiResponse({ status: 410, description: '`offsets-expired`, with `onExpired: "stop"`.' })
  async poll(
    @Param('group') group: string,
    @Body(validBody(PollRequest)) request: PollRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    memberId(request.member);
    checkItems(request.commit ?? [], '/commit');
    const closed = closedSignal(reply);
    const result = await this.polls.poll(groupName(group), request, closed);
    if (!result) return;
    const { text, poll, batches } = result;
    onUnread(reply, () => {
      void this.polls.unread({ group, member: request.member, poll, batches }).catch(() => undefined);
    });
    void reply.type('application/json; charset=utf-8').send(text);
  }

  @Post(':group/commit')
  @HttpCode(200)
  @Allow('consume')
  @ApiOperation({
    summary: 'Commit the last offset processed of each partition, and reject messages.',
    description:
      'Per item: `committed`; `behind` (a higher one is stored and stays); `ahead` (was not handed out: refused); `fenced` (the member does not own the partition: nothing is recorded).',
  })
  @ApiGroup
  @ApiBody({ type: CommitRequest })
  @ApiResponse({ status: 200, description: 'An outcome for each item.', schema: COMMITTED_OFFSETS })
  @ApiResponse({
    status: 404,
    description: NO_GROUP_OR_MEMBER,
  })
  async commit(
    @Param('group') group: string,
    @Body(validBody(CommitRequest)) { member, offsets }: CommitRequest,
  ) {
    memberId(member);
    checkItems(offsets, '/offsets');
    const { outcomes } = await this.commits.commit(groupName(group), member, offsets);
    return { offsets: offsets.map((item, index) => outcomeView({ item, ...outcomes[index]! })) };
  }

  @Post(':group/seek')
  @HttpCode(200)
  @Allow('admin')
  @ApiOperation({ summary: 'Move the offsets of a group without live members, back or forth.' })
  @ApiGroup
  @ApiBody({ type: SeekRequest })
  @ApiResponse({
    status: 200,
    description: 'For each partition, from which offset to which.',
    schema: SOUGHT,
  })
  @ApiResponse({ status: 404, description: 'No such group, or it reads no such topic or partition.' })
  @ApiResponse({ status: 409, description: '`group-active`: stop its members first, or try with `dryRun`.' })
  async seek(
    @Param('group') group: string,
    @Body(validBody(SeekRequest)) request: SeekRequest,
    @Req() { caller }: FastifyRequest,
  ) {
    return this.seeks.seek(group, request, caller.name);
  }
}

/** An id that is none is not queried: PostgreSQL would refuse it. */
function memberId(member: string): string {
  if (!UUID.test(member)) throw memberUnknown();
  return member;
}

function closedSignal(reply: FastifyReply): AbortSignal {
  const closed = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) closed.abort();
  });
  return closed.signal;
}
