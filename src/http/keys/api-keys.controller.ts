import { Body, Controller, Delete, Get, HttpCode, Param, Post, Query, Req } from '@nestjs/common';
import { ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { ArrayMaxSize, ArrayNotEmpty, ArrayUnique, IsArray, IsIn, Matches } from 'class-validator';
import type { FastifyRequest } from 'fastify';
import { SCOPES, type Scope } from '../../config/api-keys-variable.ts';
import { type BoundField, MAX_PREFIXES, prefixError, scopesError } from '../../config/key-binding.ts';
import { Allow } from '../access.ts';
import { Nullable } from '../optional.ts';
import { ApiPage, pageOf, pageRequest } from '../pages.ts';
import { faultyFields, Problem } from '../problems.ts';
import { validBody } from '../valid-body.ts';
import { ApiKeyStore } from './api-key-store.ts';
import { ApiKeys } from './api-keys.ts';

export class NewApiKey {
  @ApiProperty({
    example: 'orders',
    description: 'Says who it is; also the source of the messages it posts.',
  })
  @Matches(/^[A-Za-z0-9][\w.-]{0,62}$/, { message: 'must be 1 to 63 letters, digits, ".", "_" or "-"' })
  name: string;

  @ApiProperty({ enum: SCOPES, isArray: true })
  @ArrayNotEmpty()
  @ArrayUnique()
  @IsIn(SCOPES, { each: true })
  scopes: Scope[];

  @ApiPropertyOptional({
    type: [String],
    nullable: true,
    example: ['urn:shop/'],
    description: `Prefixes of the sources it may post CloudEvents for, at most ${MAX_PREFIXES}; others are a 403. Its own source is allowed in any case. Absent or null: any.`,
  })
  @Nullable()
  @IsArray()
  @ArrayNotEmpty()
  @ArrayMaxSize(MAX_PREFIXES)
  @ArrayUnique()
  sources?: string[];

  @ApiPropertyOptional({
    type: [String],
    nullable: true,
    example: ['shop-'],
    description: `Prefixes of the keys it may post messages of, at most ${MAX_PREFIXES}; others are a 403. Of a message without a key the id counts. Absent or null: any.`,
  })
  @Nullable()
  @IsArray()
  @ArrayNotEmpty()
  @ArrayMaxSize(MAX_PREFIXES)
  @ArrayUnique()
  keys?: string[];
}

@ApiTags('api keys')
@Controller('v1/api-keys')
export class ApiKeysController {
  constructor(
    private readonly keys: ApiKeys,
    private readonly store: ApiKeyStore,
  ) {}

  @Post()
  @Allow('admin')
  @ApiOperation({ summary: 'Make a key. The answer shows it once; only a hash is kept.' })
  async create(@Body(validBody(NewApiKey)) body: NewApiKey, @Req() request: FastifyRequest) {
    refuseBadBinding(body);
    const created = await this.keys.create(body.name, body.scopes, body, request.caller);
    if (!created)
      throw new Problem(
        'conflict',
        `A live key has the name "${body.name}"; revoke it first or choose another.`,
      );
    return created;
  }

  @Get()
  @Allow('admin')
  @ApiOperation({ summary: 'The stored keys, revoked ones included. Those of API_KEYS are not listed.' })
  @ApiPage()
  async list(@Query() query: { limit?: string; cursor?: string }) {
    const page = pageRequest(query, (value): value is string => typeof value === 'string');
    const rows = await this.store.list(page.after, page.limit + 1);
    return pageOf(
      rows,
      page.limit,
      (row) => row.id,
      (row) => row,
    );
  }

  @Delete(':id')
  @HttpCode(204)
  @Allow('admin')
  @ApiOperation({ summary: 'Revoke a key; every replica refuses it within 5 s.' })
  async revoke(@Param('id') id: string, @Req() request: FastifyRequest): Promise<void> {
    if (!(await this.keys.revoke(id, request.caller)))
      throw new Problem('not-found', 'No stored key has this id.');
  }
}

function refuseBadBinding(body: NewApiKey): void {
  const faults = (['sources', 'keys'] satisfies BoundField[]).flatMap((field) =>
    (body[field] ?? []).flatMap((prefix, index) => {
      const detail = prefixError(field, prefix);
      return detail === undefined ? [] : [{ pointer: `/${field}/${index}`, detail }];
    }),
  );
  const ofScopes = scopesError(body.scopes, body);
  if (ofScopes) faults.push({ pointer: '/scopes', detail: ofScopes });
  if (faults.length) throw faultyFields(faults);
}
