import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { Validator } from '@seriousme/openapi-schema-validator';
import { isScope } from '../../src/http/access.ts';
import { sharedReplica } from '../support/shared-replica.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const SNAPSHOT = resolve(import.meta.dirname, 'openapi.snapshot.json');
const METHODS = ['get', 'post', 'put', 'patch', 'delete'];

interface Operation {
  summary?: string;
  operationId?: string;
  security?: unknown[];
  parameters?: { name: string; description?: string; schema?: { type?: string } }[];
  responses: Record<string, { description: string; content?: Record<string, { schema?: object }> }>;
  'x-scope'?: string;
}

const { replica } = sharedReplica();
let document: {
  info: { version: string };
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: object };
};

beforeAll(async () => {
  document = (await replica.call('GET', '/openapi.json', { key: null })).body;
});

describe('the OpenAPI document', () => {
  it('is valid', async () => {
    const result = await new Validator().validate(structuredClone(document));
    expect(result).toEqual({ valid: true });
  });

  it('matches its snapshot; UPDATE_OPENAPI=1 npm run jest -- openapi updates it', () => {
    const text = `${JSON.stringify({ ...document, info: { ...document.info, version: '' } }, null, 2)}\n`;
    if (process.env.UPDATE_OPENAPI) writeFileSync(SNAPSHOT, text);
    expect(text).toBe(readFileSync(SNAPSHOT, 'utf8'));
  });

  it('has every route, with its scope, and no other', () => {
    const served = replica.app.routes
      .filter(({ method, url }) => method !== 'HEAD' && !/^\/($|console|docs|openapi\.json)/.test(url))
      .map(({ method, url, access }) => {
        const scope = isScope(access) ? access : undefined;
        return `${method} ${url.replace(/:([A-Za-z]+)/g, '{$1}')} ${scope}`;
      });
    const described = operations().map(([name, operation]) => `${name} ${operation['x-scope']}`);
    expect(described.sort()).toEqual(served.sort());
  });

  it('describes every operation with its summary, its own id and its security', () => {
    for (const [name, operation] of operations()) {
      expect([name, operation.summary]).toEqual([name, expect.stringMatching(/\S{3}/)]);
      expect([name, Boolean(operation.security)]).toEqual([name, Boolean(operation['x-scope'])]);
    }
    const ids = operations().map(([, { operationId }]) => operationId);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('has a schema for every success, and a type and a description for every parameter', () => {
    expect(operations().flatMap(([name, operation]) => missingIn(name, operation))).toEqual([]);
  });

  it('is checked so that an operation without them is found', () => {
    const responses = {
      200: { description: 'Done.', content: { 'application/json': {} } },
      202: { description: 'Started.' },
      204: { description: '' },
    };
    const parameters = [
      { name: 'a', schema: { type: 'string' } },
      { name: 'b', description: 'B.', schema: {} },
    ];
    expect(missingIn('GET /x', { responses, parameters })).toEqual([
      'GET /x 200: no schema',
      'GET /x 202: no schema',
      'GET /x 204: no description',
      'GET /x a: no description',
      'GET /x b: no type',
    ]);
    expect(missingIn('GET /y', { responses: {} })).toEqual(['GET /y: no success']);
  });

  it('has no schema that nothing refers to', () => {
    const text = JSON.stringify(document);
    const names = Object.keys(document.components.schemas);
    expect(names.filter((name) => !text.includes(`"#/components/schemas/${name}"`))).toEqual([]);
  });
});

describe('the documents', () => {
  it('name only routes that exist', () => {
    const files = readdirSync(resolve(ROOT, 'docs')).filter((file) => file.endsWith('.md'));
    const named = ['README.md', ...files.map((file) => `docs/${file}`)].flatMap((path) =>
      routesIn(readFileSync(resolve(ROOT, path), 'utf8')).map((route) => [path, route] as const),
    );
    const there = new Set(operations().map(([name]) => withoutNames(name)));
    expect(named.length).toBeGreaterThan(15);
    expect(named.filter(([, route]) => !there.has(route))).toEqual([]);
  });

  it('are checked so that a missing route is found', () => {
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

function missingIn(name: string, { responses, parameters = [] }: Operation): string[] {
  const successes = Object.entries(responses).filter(([status]) => status.startsWith('2'));
  if (successes.length === 0) return [`${name}: no success`];
  return [
    ...successes.flatMap(([status, { description, content }]) => {
      if (!description) return [`${name} ${status}: no description`];
      const schemas = Object.values(content ?? {}).map(({ schema = {} }) => Object.keys(schema).length);
      const isComplete = status === '204' ? !content : schemas.length > 0 && !schemas.includes(0);
      return isComplete ? [] : [`${name} ${status}: no schema`];
    }),
    ...parameters.flatMap((parameter) => {
      if (!parameter.description) return [`${name} ${parameter.name}: no description`];
      return parameter.schema?.type ? [] : [`${name} ${parameter.name}: no type`];
    }),
  ];
}

/** `GET /v1/messages/{}`: written with a method before it; a name in braces may be any. */
function routesIn(text: string): string[] {
  const found = text.matchAll(/\b(GET|POST|PUT|PATCH|DELETE) (\/[\w\-/{}]*[\w}])/g);
  return [...found].map(([, method, path]) => withoutNames(`${method} ${path}`));
}

function withoutNames(route: string): string {
  return route.replaceAll(/\{\w+\}/g, '{}');
}
