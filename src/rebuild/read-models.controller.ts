import { Body, Controller, Get, HttpCode, Param, Post, Req } from '@nestjs/common';
import { ApiOperation, ApiProperty, ApiPropertyOptional, ApiResponse, ApiTags } from '@nestjs/swagger';
import { IsBoolean, IsOptional, IsString, Length } from 'class-validator';
import type { FastifyRequest } from 'fastify';
import { Allow } from '../http/access.ts';
import { Problem } from '../http/problems.ts';
import { queryOf } from '../http/query.ts';
import { Repeatable } from '../http/repeats.ts';
import { list, object } from '../http/schema.ts';
import { validBody } from '../http/valid-body.ts';
import { ReadModelRegistry, type RegisteredModel } from './read-model-registry.ts';
import {
  ApiReadModel,
  READ_MODEL,
  REBUILD,
  type ReadModelView,
  type RebuildView,
} from './read-models.openapi.ts';
import { RebuildStatements } from './rebuild-statements.ts';
import { type Control, RebuildStore } from './rebuild-store.ts';
import { rebuildView } from './rebuild-view.ts';
import { Rebuilds } from './rebuilds.ts';

export class StartRebuild {
  @ApiPropertyOptional({
    default: false,
    description: 'Stop after the comparison; `switch` continues it, `cancel` ends it.',
  })
  @IsOptional()
  @IsBoolean()
  dryRun?: boolean;

  @ApiPropertyOptional({
    default: false,
    description: 'Leave out messages that fail instead of stopping at the first.',
  })
  @IsOptional()
  @IsBoolean()
  recordFailures?: boolean;

  @ApiPropertyOptional({ default: false, description: 'Switch also if `recordFailures` left messages out.' })
  @IsOptional()
  @IsBoolean()
  acceptFailures?: boolean;

  @ApiPropertyOptional({
    default: false,
    description: 'Rebuild from what there is, although older messages were removed.',
  })
  @IsOptional()
  @IsBoolean()
  partial?: boolean;
}

export class SkipMessage {
  @ApiProperty({ minLength: 1, maxLength: 500, example: 'a test message of 2024' })
  @IsString()
  @Length(1, 500)
  reason: string;
}

const NOT_FOUND = { status: 404, description: 'No read model has this name, or no rebuild of it is open.' };
const CONFLICT = { status: 409, description: 'Not in the state that it is in; `detail` says which.' };
const OK = { status: 200, description: 'The rebuild.', schema: REBUILD };

@ApiTags('read models')
@Controller('v1/read-models')
export class ReadModelsController {
  constructor(
    private readonly registry: ReadModelRegistry,
    private readonly statements: RebuildStatements,
    private readonly store: RebuildStore,
    private readonly rebuilds: Rebuilds,
  ) {}

  @Get()
  @Allow('read')
  @Repeatable()
  @ApiOperation({ summary: 'The read models of this service, each with its latest rebuild.' })
  @ApiResponse({ status: 200, description: 'The read models.', schema: object({ items: list(READ_MODEL) }) })
  async list(@Req() request: FastifyRequest): Promise<{ items: ReadModelView[] }> {
    queryOf(request.query, []);
    const rebuilds = await this.statements.view(undefined);
    const of = (name: string) => rebuilds.find(({ model }) => model === name);
    return { items: this.registry.names.map((name) => readModelView(this.known(name), of(name))) };
  }

  @Get(':name')
  @Allow('read')
  @Repeatable()
  @ApiOperation({ summary: 'A read model with its latest rebuild.' })
  @ApiReadModel
  @ApiResponse({ status: 200, description: 'The read model.', schema: READ_MODEL })
  @ApiResponse(NOT_FOUND)
  async one(@Param('name') name: string): Promise<ReadModelView> {
    const model = this.known(name);
    return readModelView(model, (await this.statements.view(name))[0]);
  }

  @Post(':name/rebuild')
  @HttpCode(202)
  @Allow('admin')
  @ApiOperation({ summary: 'Compute a read model from scratch beside the living one, compare, and switch.' })
  @ApiReadModel
  @ApiResponse({ ...OK, status: 202, description: 'Started.' })
  @ApiResponse(NOT_FOUND)
  @ApiResponse(CONFLICT)
  async start(
    @Param('name') name: string,
    @Body(validBody(StartRebuild)) body: StartRebuild,
    @Req() { caller }: FastifyRequest,
  ): Promise<RebuildView> {
    const model = this.known(name);
    if (model.migrations.length === 0)
      throw new Problem('conflict', `${name} has no tables of its own: there is nothing to rebuild.`);
    const { dryRun = false, recordFailures = false, acceptFailures = false, partial = false } = body;
    await this.store.start(model, { dryRun, recordFailures, acceptFailures, partial }, caller.name);
    return this.woken(name);
  }

  @Post(':name/rebuild/skip')
  @HttpCode(200)
  @Allow('admin')
  @ApiOperation({ summary: 'Leave out the message at which a rebuild stopped, and continue.' })
  @ApiReadModel
  @ApiResponse(OK)
  @ApiResponse(NOT_FOUND)
  @ApiResponse(CONFLICT)
  async skip(
    @Param('name') name: string,
    @Body(validBody(SkipMessage)) { reason }: SkipMessage,
    @Req() { caller }: FastifyRequest,
  ): Promise<RebuildView> {
    await this.store.skip(this.known(name).name, reason, caller.name);
    return this.woken(name);
  }

  @Post(':name/rebuild/pause')
  @HttpCode(200)
  @Allow('admin', 'none')
  @ApiOperation({ summary: 'Pause a rebuild after the batches in flight.' })
  @ApiReadModel
  @ApiResponse(OK)
  @ApiResponse(NOT_FOUND)
  @ApiResponse(CONFLICT)
  pause(@Param('name') name: string, @Req() request: FastifyRequest) {
    return this.control(name, 'pause', request);
  }

  @Post(':name/rebuild/resume')
  @HttpCode(200)
  @Allow('admin', 'none')
  @ApiOperation({ summary: 'Resume a paused rebuild.' })
  @ApiReadModel
  @ApiResponse(OK)
  @ApiResponse(NOT_FOUND)
  @ApiResponse(CONFLICT)
  resume(@Param('name') name: string, @Req() request: FastifyRequest) {
    return this.control(name, 'resume', request);
  }

  @Post(':name/rebuild/cancel')
  @HttpCode(200)
  @Allow('admin', 'none')
  @ApiOperation({
    summary: 'End a rebuild before its switch and drop the next schema; the living one is as it was.',
  })
  @ApiReadModel
  @ApiResponse(OK)
  @ApiResponse(NOT_FOUND)
  @ApiResponse(CONFLICT)
  cancel(@Param('name') name: string, @Req() request: FastifyRequest) {
    return this.control(name, 'cancel', request);
  }

  @Post(':name/rebuild/switch')
  @HttpCode(200)
  @Allow('admin', 'none')
  @ApiOperation({ summary: 'Switch after a dry run, or again after a rollback; it catches up first.' })
  @ApiReadModel
  @ApiResponse(OK)
  @ApiResponse(NOT_FOUND)
  @ApiResponse(CONFLICT)
  switch(@Param('name') name: string, @Req() request: FastifyRequest) {
    return this.control(name, 'switch', request);
  }

  @Post(':name/rebuild/rollback')
  @HttpCode(200)
  @Allow('admin', 'none')
  @ApiOperation({ summary: 'Switch back to the previous schema, after what came since is applied to it.' })
  @ApiReadModel
  @ApiResponse(OK)
  @ApiResponse(NOT_FOUND)
  @ApiResponse(CONFLICT)
  rollback(@Param('name') name: string, @Req() request: FastifyRequest) {
    return this.control(name, 'rollback', request);
  }

  @Post(':name/rebuild/drop')
  @HttpCode(200)
  @Allow('admin', 'none')
  @ApiOperation({ summary: 'Drop the schema that a switch left behind; a rollback is not possible then.' })
  @ApiReadModel
  @ApiResponse(OK)
  @ApiResponse(NOT_FOUND)
  @ApiResponse(CONFLICT)
  drop(@Param('name') name: string, @Req() request: FastifyRequest) {
    return this.control(name, 'drop', request);
  }

  private async control(name: string, what: Control, { caller }: FastifyRequest): Promise<RebuildView> {
    await this.store.control(this.known(name), what, caller.name);
    return this.woken(name);
  }

  private async woken(name: string): Promise<RebuildView> {
    this.rebuilds.wake();
    return rebuildView((await this.statements.view(name))[0]!);
  }

  private known(name: string): RegisteredModel {
    const model = this.registry.find(name);
    if (!model)
      throw new Problem(
        'not-found',
        `No read model has this name; there are: ${this.registry.names.join(', ')}.`,
      );
    return model;
  }
}

function readModelView(
  { name, types, version }: RegisteredModel,
  latest: Parameters<typeof rebuildView>[0] | undefined,
): ReadModelView {
  return { name, types, version, rebuild: latest ? rebuildView(latest) : null };
}
