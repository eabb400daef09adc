import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Validator } from '@seriousme/openapi-schema-validator';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const SNAPSHOT = resolve(import.meta.dirname, 'openapi.snapshot.json');
const METHODS = ['get', 'post', 'put', 'patch', 'delete'];

interface Operation {
  summary?: string;
  operationId?: string;
  security?: unknown[];
  parameters?: { name: string; schema?: { type?: string } }[];
  responses: Record<string, unknown>;
  'x-scope'?: string;
}

let database: TestDatabase;
let replica: TestApp;
let document: { info: { version: string }; paths: Record<string, Record<string, Operation>> };

beforeAll(async () => {
  database = await createDatabase();
  replica = await startApp(database);
  document = (await replica.call('GET', '/openapi.json', { key: null })).body;
});
afterAll(async () => {
  await replica.close();
  await database.drop();
});

describe('the OpenAPI document', () => {
  it('is valid', async () => {
    const result = await new Validator().validate(structuredClone(document));
    expect(result).toEqual({ valid: true });
  });

  it('is the one agreed on; UPDATE_OPENAPI=1 npm run jest -- openapi writes what it has become', () => {
    const text = `${JSON.stringify({ ...document, info: { ...document.info, version: '' } }, null, 2)}\n`;
    if (process.env.UPDATE_OPENAPI) writeFileSync(SNAPSHOT, text);
    expect(text).toBe(readFileSync(SNAPSHOT, 'utf8'));
  });

  it('has every route, with the scope it asks for, and no route that is not there', () => {
    const served = replica.app.routes
      .filter(({ method, url }) => method !== 'HEAD' && !/^\/(docs|openapi\.json)/.test(url))
      .map(({ method, url, access }) => {
        const scope = access === 'public' || access === 'metrics' ? undefined : access;
        return `${method} ${url.replace(/:([A-Za-z]+)/g, '{$1}')} ${scope}`;
      });
    const described = operations().map(([name, operation]) => `${name} ${operation['x-scope']}`);
    expect(described.sort()).toEqual(served.sort());
  });

  it('says of every operation what it does, takes and answers, and whether it wants a key', () => {
    for (const [name, operation] of operations()) {
      expect([name, operation.summary]).toEqual([name, expect.stringMatching(/\S{3}/)]);
      expect([name, Object.keys(operation.responses).some((status) => /^2/.test(status))]).toEqual([
        name,
        true,
      ]);
      for (const parameter of operation.parameters ?? []) {
        expect([name, parameter.name, parameter.schema?.type]).toEqual([
          name,
          parameter.name,
          expect.any(String),
        ]);
      }
      expect([name, Boolean(operation.security)]).toEqual([name, Boolean(operation['x-scope'])]);
    }
    const ids = operations().map(([, { operationId }]) => operationId);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

describe('the documents', () => {
  it('name only routes that are there', () => {
    const files = readdirSync(resolve(ROOT, 'docs')).filter((file) => file.endsWith('.md'));
    const named = ['README.md', ...files.map((file) => `docs/${file}`)].flatMap((path) =>
      routesIn(readFileSync(resolve(ROOT, path), 'utf8')).map((route) => [path, route] as const),
    );
    const there = new Set(operations().map(([name]) => withoutNames(name)));
    expect(named.length).toBeGreaterThan(15);
    expect(named.filter(([, route]) => !there.has(route))).toEqual([]);
  });

  it('are read by a checker that sees a route that is not there', () => {
    expect(routesIn('`GET /v1/messages/{id}/when?x=1`, then PUT /v1/listener/{name}.')).toEqual([
      'GET /v1/messages/{}/when',
      'PUT /v1/listener/{}',
    ]);
  });
});

function operations(): [name: string, operation: Operation][] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    METHODS.filter((method) => methods[method]).map((method): [string, Operation] => [
      `${method.toUpperCase()} ${path}`,
      methods[method]!,
    ]),
  );
}

/** `GET /v1/messages/{}`: written with a method before it; a name in braces may be any. */
function routesIn(text: string): string[] {
  const found = text.matchAll(/\b(GET|POST|PUT|PATCH|DELETE) (\/[\w\-/{}]*[\w}])/g);
  return [...found].map(([, method, path]) => withoutNames(`${method} ${path}`));
}

function withoutNames(route: string): string {
  return route.replaceAll(/\{\w+\}/g, '{}');
}
