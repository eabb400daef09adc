import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Body, Controller, Get, HttpCode, Module, Post, Query, Res } from '@nestjs/common';
import { ApiBody, ApiQuery, ApiResponse } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { Allow } from '../../src/http/access.ts';
import { COUNT, choice, named, nullable, object, TEXT, TIME } from '../../src/http/schema.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';

const THING = named(
  'Thing',
  object({ id: TEXT, kind: choice(['a', 'b']), at: TIME, size: nullable(COUNT) }, { note: TEXT }),
);
const GOOD = { id: 'x', kind: 'a', at: '2026-01-31T12:00:00.000Z', size: null };

interface Reply {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: unknown;
}

/** Returns what it is told to return. */
@Controller('thing')
class Things {
  @Post()
  @HttpCode(200)
  @Allow('public')
  @ApiBody({ schema: { type: 'object', properties: { status: { type: 'integer' }, body: {} } } })
  @ApiQuery({ name: 'limit', required: false, schema: { type: 'integer', maximum: 5 } })
  @ApiResponse({ status: 200, schema: THING })
  @ApiResponse({ status: 201, schema: THING, headers: { Location: { required: true, schema: TEXT } } })
  reply(
    @Body() { status = 200, body, headers = {} }: Partial<Reply>,
    @Query() _query: unknown,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    void reply.code(status).headers(headers);
    return body;
  }

  @Get()
  @Allow('public')
  undescribed() {
    return { anything: true };
  }
}

@Module({ controllers: [Things] })
class ThingsModule {}

describe('every response of a replica in the tests', () => {
  let database: TestDatabase;
  let replica: TestApp;

  beforeAll(async () => {
    database = await createDatabase();
    replica = await startApp(database, {}, [
      { name: 'things', module: ThingsModule, entities: [], migrations: [] },
    ]);
  });
  afterAll(async () => {
    await replica.close();
    await database.drop();
  });

  const returned = (body: unknown, more: object = {}, query = '') =>
    replica.call('POST', `/thing${query}`, { body: { body, ...more } });

  it('is as the document describes it', async () => {
    expect((await returned(GOOD)).status).toBe(200);
    expect((await returned({ ...GOOD, size: 1, note: '' }, {}, '?limit=5')).status).toBe(200);
    const created = await returned(GOOD, { status: 201, headers: { location: '/x' } });
    expect(created.status).toBe(201);
  });

  it.each([
    ['has no member too few', { ...GOOD, kind: undefined }, "must have required property 'kind'"],
    ['has no member too many', { ...GOOD, note2: 'x' }, 'must NOT have additional properties (note2)'],
    ['has values of the declared types', { ...GOOD, id: 1 }, '/id must be string'],
    ['has null only where it is declared', { ...GOOD, id: null }, '/id must be string'],
    ['has only declared values', { ...GOOD, kind: 'c' }, '/kind must be equal to one of the allowed values'],
    ['has times in UTC', { ...GOOD, at: '2026-01-31T12:00:00+01:00' }, '/at must match format "date-time"'],
  ])('%s, or the call fails', async (_, body, fault) => {
    await expect(returned(body)).rejects.toThrow(`POST /thing 200: ${fault}`);
  });

  it.each([
    ['a status', { status: 202 }, '', '202: the status is not declared'],
    ['a header', { headers: { location: '/x' } }, '', '200: the header location is not declared'],
    ['the absence of a header', { status: 201 }, '', '201: the header location is missing'],
    ['a media type', { headers: { 'content-type': 'text/html' } }, '', 'text/html is not declared'],
    ['a parameter', {}, '?limits=1', '200: the query parameter limits is not declared'],
    ['a parameter’s value', {}, '?limit=6', '200: limit must be <= 5'],
    ['a request’s body', { status: '200' }, '', '200: request body /status must be integer'],
  ])('has %s that is declared, or the call fails', async (_, more, query, fault) => {
    await expect(returned(GOOD, more, query)).rejects.toThrow(fault);
  });

  it('is checked whoever sent the request: the replica cannot be closed without the failure', async () => {
    const other = await startApp(database, {}, [
      { name: 'things', module: ThingsModule, entities: [], migrations: [] },
    ]);
    await fetch(`${other.url}/thing`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"body":{}}',
    });
    await expect(other.close()).rejects.toThrow("POST /thing 200: must have required property 'id'");
  });
});
