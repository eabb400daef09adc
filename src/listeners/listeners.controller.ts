import { Body, Controller, Delete, Get, HttpCode, Inject, Param, Post, Put, Req, Res } from '@nestjs/common';
import { ApiBody, ApiOperation, ApiPropertyOptional, ApiResponse, ApiTags } from '@nestjs/swagger';
import { IsString, Length } from 'class-validator';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { Database } from '../database/database.ts';
import { Allow, permits } from '../http/access.ts';
import { AuditLog } from '../http/audit/audit-log.ts';
import { rejectBadName } from '../http/names.ts';
import { Optional } from '../http/optional.ts';
import { ApiPage, pageByName } from '../http/pages.ts';
import { invalidFields, Problem } from '../http/problems.ts';
import { Repeatable } from '../http/repeats.ts';
import { LOCATION } from '../http/schema.ts';
import { validated } from '../http/valid-body.ts';
import { EgressGuard } from '../webhooks/egress-guard.ts';
import { checkDefinition } from './check-definition.ts';
import { ListenerChanges, refusePulled } from './listener-changes.ts';
import { ListenerDefinition } from './listener-definition.ts';
import type { HealthRow } from './listener-health-view.ts';
import { listenerView } from './listener-view.ts';
import {
  ApiListener,
  ApiNewListener,
  LISTENER,
  type ListenerView,
  PING_OUTCOME,
  type PingOutcome,
  PUT_LISTENER,
  type PutListener,
  ROTATED_SECRET,
  type RotatedSecret,
} from './listeners.openapi.ts';
import { listenerOf } from './listeners.ts';
import { existingName, type ListenerRow, ListenersStore } from './listeners-store.ts';
import { Ping } from './ping.ts';
import { ConfidentialBox } from './secrets/confidential.ts';

export class PauseListener {
  @ApiPropertyOptional({ minLength: 1, maxLength: 500, example: 'their maintenance' })
  @Optional()
  @IsString()
  @Length(1, 500)
  reason?: string;
}

@ApiTags('listeners')
@Controller('v1/listeners')
export class ListenersController {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly changes: ListenerChanges,
    private readonly store: ListenersStore,
    private readonly box: ConfidentialBox,
    private readonly guard: EgressGuard,
    private readonly ping: Ping,
    private readonly audit: AuditLog,
    private readonly database: Database,
  ) {}

  @Put(':name')
  @Allow('admin')
  @ApiOperation({
    summary:
      'Create a listener (201; the response shows the secret of a webhook, once) or replace its definition (200).',
  })
  @ApiNewListener
  @ApiBody({ type: ListenerDefinition })
  @ApiResponse({
    status: 201,
    description: 'Created, or brought back; `secret` signs its deliveries.',
    schema: PUT_LISTENER,
    headers: LOCATION,
  })
  @ApiResponse({
    status: 200,
    description: 'Replaced; its secret and its state stay, unless it changed to the mode `webhook`.',
    schema: PUT_LISTENER,
  })
  @ApiResponse({
    status: 409,
    description:
      'Comes from LISTENERS_FILE, has another number of lanes, or has pending messages in another mode.',
  })
  @ApiResponse({ status: 422, description: 'Not valid; `errors` points at each fault.' })
  async put(
    @Param('name') name: string,
    @Body() body: unknown,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<PutListener> {
    const definition = await this.checked(name, body);
    const { row, created, secret } = await this.changes.put(name, definition, request.caller.name);
    if (created) void reply.code(201).header('location', `/v1/listeners/${name}`);
    return { ...(await this.view(row, request)), ...(secret ? { secret } : {}) };
  }

  @Get()
  @Allow('read')
  @Repeatable()
  @ApiOperation({ summary: 'All listeners, by name.' })
  @ApiPage(LISTENER)
  async list(@Req() request: FastifyRequest) {
    let health: ReadonlyMap<number, HealthRow> | undefined;
    return pageByName(
      request.query,
      async (after, limit) => {
        const rows = await this.store.page(after, limit);
        health = await this.store.health(rows);
        return rows;
      },
      (row) => this.view(row, request, health),
    );
  }

  @Get(':name')
  @Allow('read')
  @Repeatable()
  @ApiOperation({ summary: 'A listener: its definition with all defaults, and its state.' })
  @ApiListener
  @ApiResponse({ status: 200, description: 'The listener.', schema: LISTENER })
  async one(@Param('name') name: string, @Req() request: FastifyRequest) {
    return this.view(await this.store.existing(name), request);
  }

  @Delete(':name')
  @HttpCode(204)
  @Allow('admin')
  @ApiOperation({
    summary: 'Delete a listener. Its pending deliveries stay, and wait for a listener of the same name.',
  })
  @ApiListener
  @ApiResponse({ status: 204, description: 'Deleted.' })
  @ApiResponse({ status: 409, description: 'Comes from LISTENERS_FILE.' })
  async remove(@Param('name') name: string, @Req() request: FastifyRequest): Promise<void> {
    await this.changes.remove(existingName(name), request.caller.name);
  }

  @Post(':name/rotate-secret')
  @HttpCode(200)
  @Allow('admin', 'none')
  @ApiOperation({ summary: 'A new secret, shown once. Deliveries have both signatures for 24 hours.' })
  @ApiListener
  @ApiResponse({ status: 200, description: 'The new secret.', schema: ROTATED_SECRET })
  @ApiResponse({
    status: 409,
    description: 'It has no secret, has one of LISTENERS_FILE, or was rotated too often.',
  })
  async rotateSecret(@Param('name') name: string, @Req() request: FastifyRequest): Promise<RotatedSecret> {
    return this.changes.rotateSecret(existingName(name), request.caller.name);
  }

  @Post(':name/pause')
  @HttpCode(200)
  @Allow('admin')
  @ApiOperation({
    summary: 'Send nothing more to a listener until it is resumed; its deliveries stay pending.',
  })
  @ApiListener
  @ApiBody({ type: PauseListener, required: false })
  @ApiResponse({ status: 200, description: 'Paused.', schema: LISTENER })
  async pause(@Param('name') name: string, @Body() body: unknown, @Req() request: FastifyRequest) {
    const { reason } = await validated(PauseListener, body ?? {});
    return this.view(await this.changes.pause(existingName(name), reason, request.caller.name), request);
  }

  @Post(':name/resume')
  @HttpCode(200)
  @Allow('admin', 'none')
  @ApiOperation({ summary: 'Send again to a listener that was paused or disabled, from where it stopped.' })
  @ApiListener
  @ApiResponse({ status: 200, description: 'Active.', schema: LISTENER })
  async resume(@Param('name') name: string, @Req() request: FastifyRequest) {
    return this.view(await this.changes.resume(existingName(name), request.caller.name), request);
  }

  @Post(':name/test')
  @HttpCode(200)
  @Allow('admin', 'none')
  @ApiOperation({ summary: 'Send a ping now, in any state, and return its result.' })
  @ApiListener
  @ApiResponse({ status: 200, description: 'Sent, or failed.', schema: PING_OUTCOME })
  @ApiResponse({ status: 409, description: 'It has the mode `pull`, or its secrets cannot be read.' })
  async test(@Param('name') name: string, @Req() { caller }: FastifyRequest): Promise<PingOutcome> {
    const row = await this.store.existing(name);
    refusePulled(row, 'there is no endpoint to send a ping to');
    const [opened, { now }] = await Promise.all([this.box.open(row), this.store.revision()]);
    if (opened.kind === 'locked')
      throw new Problem('conflict', `Its secrets cannot be read: ${opened.reason}.`);
    // Recorded before it is sent: if this replica dies meanwhile, the audit log has it nevertheless.
    await this.audit.record({ by: caller.name, action: 'listener.test', target: name }, this.database);
    return this.ping.send(listenerOf(row, opened, now));
  }

  private async checked(name: string, body: unknown): Promise<ListenerDefinition> {
    rejectBadName(name);
    const checked = await checkDefinition(body, {
      urlRefusal: (url) => this.refusalOf(url),
      checkServer: (host, port) => this.guard.checkServer(host, port),
      leaseMs: this.settings.outboxLease,
    });
    if (checked.kind === 'valid') return checked.definition;
    throw invalidFields(checked.faults);
  }

  private async refusalOf(url: string): Promise<string | undefined> {
    const verdict = await this.guard.checkEndpoint(url);
    return verdict.kind === 'refused' ? `is refused: ${verdict.reason}` : undefined;
  }

  private async view(
    row: ListenerRow,
    { caller }: FastifyRequest,
    known?: ReadonlyMap<number, HealthRow>,
  ): Promise<ListenerView> {
    const [opened, health] = await Promise.all([this.box.open(row), known ?? this.store.health([row])]);
    return listenerView(row, opened, { isAdmin: permits(caller, 'admin') }, health.get(row.number));
  }
}
