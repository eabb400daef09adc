import { applyDecorators, Body, Controller, Delete, Get, HttpCode, Param, Post, Req } from '@nestjs/common';
import {
  ApiOperation,
  ApiParam,
  ApiProperty,
  ApiPropertyOptional,
  ApiResponse,
  ApiTags,
} from '@nestjs/swagger';
import { ArrayMaxSize, ArrayNotEmpty, ArrayUnique, IsArray, IsIn, Matches } from 'class-validator';
import type { FastifyRequest } from 'fastify';
import { SCOPES, type Scope } from '../../config/api-keys-variable.ts';
import { type BoundField, MAX_PREFIXES, prefixError, scopesError } from '../../config/key-binding.ts';
import { Allow } from '../access.ts';
import { Nullable } from '../optional.ts';
import { ApiPage, pageOf, pageRequest } from '../pages.ts';
import { invalidFields, Problem } from '../problems.ts';
import { queryOf } from '../query.ts';
import { validBody } from '../valid-body.ts';
import { ApiKeyStore } from './api-key-store.ts';
import { API_KEY, type ApiKeyView, CREATED_API_KEY, type CreatedApiKey } from './api-keys.openapi.ts';
import { ApiKeys } from './api-keys.ts';

const KEY_NAME = /^[A-Za-z0-9][\w.-]{0,62}$/;

/** A field with prefixes that a key is bound to. */
function Prefixes(documented: { example: string[]; description: string }) {
  const list = { nullable: true, minItems: 1, maxItems: MAX_PREFIXES, uniqueItems: true };
  return applyDecorators(
    ApiPropertyOptional({ type: [String], ...list, ...documented }),
    Nullable(),
    IsArray(),
    ArrayNotEmpty(),
    ArrayMaxSize(MAX_PREFIXES),
    ArrayUnique(),
  );
}

export class NewApiKey {
  @ApiProperty({
    example: 'orders',
    pattern: KEY_NAME.source,
    description: 'Identifies the caller; also the source of the messages it posts.',
  })
  @Matches(KEY_NAME, { message: 'must be 1 to 63 letters, digits, ".", "_" or "-"' })
  name: string;

  @ApiProperty({ enum: SCOPES, isArray: true, minItems: 1, uniqueItems: true })
  @ArrayNotEmpty()
  @ArrayUnique()
  @IsIn(SCOPES, { each: true })
  scopes: Scope[];

  @Prefixes({
    example: ['urn:shop/'],
    description: `Prefixes of the sources it may post CloudEvents for, at most ${MAX_PREFIXES}; other sources are a 403. Its own source is always allowed. Absent or null: any source.`,
  })
  sources?: string[];

  @Prefixes({
    example: ['shop-'],
    description: `Prefixes of the message keys it may post, at most ${MAX_PREFIXES}; other keys are a 403. For a message without a key, its id counts. Absent or null: any key.`,
  })
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
  @ApiOperation({
    summary: 'Create an API key. The response is the only place that shows it; only a hash is stored.',
  })
  @ApiResponse({ status: 201, description: 'Created.', schema: CREATED_API_KEY })
  @ApiResponse({ status: 409, description: 'A live API key has this name.' })
  @ApiResponse({ status: 422, description: 'Not valid; `errors` points at each error.' })
  async create(
    @Body(validBody(NewApiKey)) body: NewApiKey,
    @Req() request: FastifyRequest,
  ): Promise<CreatedApiKey> {
    rejectBadBinding(body);
    const created = await this.keys.create(body.name, body.scopes, body, request.caller);
    if (!created)
      throw new Problem(
        'conflict',
        `A live API key is already named "${body.name}". Revoke it first or choose another name.`,
      );
    return created;
  }

  @Get()
  @Allow('admin')
  @ApiOperation({
    summary: 'List the stored API keys, including revoked ones. The keys in API_KEYS are not listed.',
  })
  @ApiPage(API_KEY)
  async list(@Req() request: FastifyRequest) {
    const query = queryOf(request.query, ['limit', 'cursor']);
    const page = pageRequest(query, (value): value is string => typeof value === 'string');
    const rows = await this.store.list(page.after, page.limit + 1);
    return pageOf(
      rows,
      page.limit,
      (row) => row.id,
      ({ fits: _, ...key }): ApiKeyView => key,
    );
  }

  @Delete(':id')
  @HttpCode(204)
  @Allow('admin')
  @ApiOperation({ summary: 'Revoke an API key. Every replica rejects it within 5 s.' })
  @ApiParam({ name: 'id', description: 'The `id` of the key.' })
  @ApiResponse({ status: 204, description: 'Revoked.' })
  @ApiResponse({ status: 404, description: 'No stored API key has this id.' })
  async revoke(@Param('id') id: string, @Req() request: FastifyRequest): Promise<void> {
    if (!(await this.keys.revoke(id, request.caller)))
      throw new Problem('not-found', 'No stored API key has this id.');
  }
}

function rejectBadBinding(body: NewApiKey): void {
  const errors = (['sources', 'keys'] satisfies BoundField[]).flatMap((field) =>
    (body[field] ?? []).flatMap((prefix, index) => {
      const detail = prefixError(field, prefix);
      return detail === undefined ? [] : [{ pointer: `/${field}/${index}`, detail }];
    }),
  );
  const ofScopes = scopesError(body.scopes, body);
  if (ofScopes) errors.push({ pointer: '/scopes', detail: ofScopes });
  if (errors.length) throw invalidFields(errors);
}
