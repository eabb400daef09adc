import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { BadRequestException, Controller, Get, Module, NotImplementedException } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { loadSettings } from '../../src/config/settings.ts';
import { Allow } from '../../src/http/access.ts';
import { ProblemFilter } from '../../src/http/problem-filter.ts';
import { PROBLEMS, problemType } from '../../src/http/problems.ts';
import { Server } from '../../src/http/server.ts';
import { createLog } from '../../src/telemetry/logger.ts';
import { ADMIN_KEY, type ApiResponse, type CallOptions, READ_KEY } from '../support/app.ts';
import { metricIncreases } from '../support/metrics.ts';
import { type RawResponse, sendRaw } from '../support/raw-http.ts';
import { sharedReplica } from '../support/shared-replica.ts';

const UUID = /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[\da-f]{4}-[\da-f]{12}$/;
const AS_ADMIN = `host: x\r\nauthorization: Bearer ${ADMIN_KEY}\r\n`;

const { replica } = sharedReplica({ ROLES: 'api', REQUEST_TIMEOUT: '1s', BODY_LIMIT: '1KiB' });

describe('the catalogue of problems', () => {
  it('is exactly what docs/problems.md lists', () => {
    const documented = readFileSync(resolve(import.meta.dirname, '../../docs/problems.md'), 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('| `'))
      .map((line) => line.split('|').map((cell) => cell.trim()))
      .map(([, type, status, title]) => [type!.replaceAll('`', ''), Number(status), title]);
    expect(documented).toEqual(
      Object.entries(PROBLEMS).map(([name, { status, title }]) => [name, status, title]),
    );
  });
});

describe('a request that cannot be served', () => {
  const NEW_KEY = '/v1/api-keys';
  const json = (body: unknown): CallOptions => ({ body });
  const cursor = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const NO_TIMES = [
    '0000-01-01T00:00:00Z',
    '0001-01-01T00:00:00+01:00',
    '9999-12-31T23:59:59-01:00',
    '2026-02-31T00:00:00Z',
    '2026-W05-1T00:00:00Z',
  ];

  it.each<[what: string, problem: string, method: string, path: string, options: CallOptions]>([
    ['a body that is not JSON', 'malformed-json', 'POST', NEW_KEY, json('{"name":')],
    ['an empty body', 'malformed-json', 'POST', NEW_KEY, { body: '', headers: { 'content-length': '0' } }],
    ['a body that is not UTF-8', 'malformed-json', 'POST', NEW_KEY, json(Buffer.from([0x22, 0xff, 0x22]))],
    ['no key', 'unauthenticated', 'GET', NEW_KEY, { key: null }],
    [
      'another scheme',
      'unauthenticated',
      'GET',
      NEW_KEY,
      { key: null, headers: { authorization: 'Basic YTpi' } },
    ],
    ['something that is no key', 'unauthenticated', 'GET', NEW_KEY, { key: 'letmein' }],
    ['an unknown key', 'unauthenticated', 'GET', NEW_KEY, { key: 'sk_nobody_0123456789abcdefghij' }],
    [
      'a known key with another secret',
      'unauthenticated',
      'GET',
      NEW_KEY,
      { key: 'sk_admin_0123456789abcdefghiX' },
    ],
    ['a key without the scope', 'forbidden', 'GET', NEW_KEY, { key: READ_KEY }],
    ['an unknown path', 'not-found', 'GET', '/v1/nothing', {}],
    ['an unknown id', 'not-found', 'DELETE', '/v1/api-keys/nobody', {}],
    ['another method', 'method-not-allowed', 'PUT', NEW_KEY, {}],
    ['a body that is too large', 'too-large', 'POST', NEW_KEY, json('x'.repeat(1025))],
    [
      'another content type',
      'unsupported-media-type',
      'POST',
      NEW_KEY,
      { body: 'a=b', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
    ],
    [
      'a content type that is none',
      'unsupported-media-type',
      'POST',
      NEW_KEY,
      { body: '{}', headers: { 'content-type': ';;' } },
    ],
    ['fields that are not allowed', 'invalid', 'POST', NEW_KEY, json({ name: '' })],
    ['a limit that is none', 'invalid', 'GET', `${NEW_KEY}?limit=many`, {}],
    ['a cursor of somebody else', 'invalid', 'GET', `${NEW_KEY}?cursor=e30`, {}],
    ['broken percent-encoding', 'bad-request', 'GET', '/v1/messages/%E0%A4%A', {}],
    ['a path part that is too long', 'bad-request', 'GET', `/v1/messages/${'a'.repeat(4000)}`, {}],
    ['NUL in a path', 'invalid', 'DELETE', '/v1/api-keys/%00', {}],
    [
      'NUL in a cursor',
      'invalid',
      'GET',
      `${NEW_KEY}?cursor=${Buffer.from('"\\u0000"').toString('base64url')}`,
      {},
    ],
    ...['/v1/audit', '/v1/dead-letters', '/v1/dead-letters/groups', '/v1/messages'].flatMap((path) =>
      NO_TIMES.map((time): [string, string, string, string, CallOptions] => [
        `${time} in ${path}`,
        'invalid',
        'GET',
        `${path}?since=${encodeURIComponent(time)}`,
        {},
      ]),
    ),
    ...NO_TIMES.map((since): [string, string, string, string, CallOptions] => [
      `${since} in a filter`,
      'invalid',
      'POST',
      '/v1/dead-letters/revive',
      json({ filter: { since } }),
    ]),
    ['a lane beyond all in a cursor', 'invalid', 'GET', `/v1/holds?cursor=${cursor([2 ** 40, 'k'])}`, {}],
    ['a lane below all in a cursor', 'invalid', 'GET', `/v1/holds?cursor=${cursor([-1, 'k'])}`, {}],
    ...['+010000-01-01T00:00:00.000Z', '0000-01-01T00:00:00.000Z', '-000001-01-01T00:00:00.000Z'].map(
      (time): [string, string, string, string, CallOptions] => [
        `${time} in a cursor`,
        'invalid',
        'GET',
        `/v1/candidates?cursor=${cursor(['-appliedAt', time, 'c'])}`,
        {},
      ],
    ),
  ])('gets a problem: %s → %s', async (_what, problem, method, path, options) => {
    const response = await replica.call(method, path, options);
    expectProblem(response, problem);
  });

  it.each<[what: string, problem: string, bytes: string]>([
    ['no HTTP at all', 'bad-request', '\u0016\u0003\u0001 hello\r\n\r\n'],
    ['an unknown method', 'bad-request', 'FOO / HTTP/1.1\r\nhost: x\r\n\r\n'],
    ['HTTP/2', 'bad-request', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a tunnel', 'bad-request', 'CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n'],
    ['no Host', 'bad-request', 'GET /livez HTTP/1.1\r\nconnection: close\r\n\r\n'],
    [
      'two lengths',
      'bad-request',
      `POST /v1/api-keys HTTP/1.1\r\n${AS_ADMIN}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n`,
    ],
    [
      'a broken chunk',
      'bad-request',
      `POST /v1/api-keys HTTP/1.1\r\n${AS_ADMIN}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n`,
    ],
    [
      'headers that are too large',
      'header-too-large',
      `GET /livez HTTP/1.1\r\nhost: x\r\nx: ${'a'.repeat(17_000)}\r\n\r\n`,
    ],
    [
      'more than 128 header fields',
      'header-too-large',
      `GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${'x:\r\n'.repeat(127)}\r\n`,
    ],
    ['a path that is too long', 'header-too-large', `GET /${'a'.repeat(17_000)} HTTP/1.1\r\nhost: x\r\n\r\n`],
    [
      'a body that turns out too large',
      'too-large',
      `POST /v1/api-keys HTTP/1.1\r\n${AS_ADMIN}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n500\r\n${'a'.repeat(0x500)}\r\n`,
    ],
  ])('gets a problem on the bare socket, too: %s → %s', async (_what, problem, bytes) => {
    expectRawProblem(await sendRaw(replica.url, bytes), problem);
  });

  it('has up to 128 header fields', async () => {
    const bytes = `GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${'x:\r\n'.repeat(126)}\r\n`;
    expect((await sendRaw(replica.url, bytes)).status).toBe(200);
  });

  it('is cut off when it does not arrive in time, headers or body, and is not logged as an error', async () => {
    const responses = await Promise.all([
      sendRaw(replica.url, 'GET /livez HTTP/1.1\r\nhost: x\r\n'),
      sendRaw(
        replica.url,
        `POST /v1/api-keys HTTP/1.1\r\n${AS_ADMIN}content-type: application/json\r\ncontent-length: 99\r\n\r\n{"na`,
      ),
      sendRaw(
        replica.url,
        `POST /v1/messages HTTP/1.1\r\n${AS_ADMIN}content-type: application/json\r\ncontent-length: 99\r\n\r\n{"ty`,
      ),
    ]);
    for (const response of responses) expectRawProblem(response, 'request-timeout');
    expect(replica.lines.filter((line) => line.includes('"http.'))).toEqual([]);
  });

  it('is not logged as an error when the caller disconnects early', async () => {
    const socket = connect(Number(new URL(replica.url).port), '127.0.0.1');
    socket.write(
      `POST /v1/api-keys HTTP/1.1\r\n${AS_ADMIN}content-type: application/json\r\ncontent-length: 99\r\n\r\n{"na`,
    );
    await replica.call('GET', '/livez'); // by now the half request has been read
    socket.destroy();
    await once(socket, 'close');
    await replica.call('GET', '/livez');
    expect(replica.lines.filter((line) => line.includes('"http.'))).toEqual([]);
  });

  it('lists the methods of a path', async () => {
    const response = await replica.call('PATCH', '/v1/api-keys');
    expect(response.status).toBe(405);
    expect(response.headers.get('allow')?.split(', ').sort()).toEqual(['GET', 'HEAD', 'POST']);
  });

  it('explains how to send a key', async () => {
    const response = await replica.call('GET', '/v1/api-keys', { key: null });
    expect(response.headers.get('www-authenticate')).toBe('Bearer');
  });

  it.each<[method: string, path: string, body: object]>([
    [
      'PUT',
      '/v1/schedules/nulls',
      { cron: '0 0 1 1 *', type: 't', payload: null, key: null, timezone: null, onMissed: null },
    ],
    ['PUT', '/v1/keys/nulls/hold', { until: null, reason: 'r' }],
  ])('may have null for an optional field: %s %s', async (method, path, body) => {
    const response = await replica.call(method, path, { body });
    expect(response.status < 300 ? 'taken' : response.text).toBe('taken');
  });

  it('gets every unknown and every invalid field by its pointer', async () => {
    const response = await replica.call('POST', '/v1/api-keys', {
      body: { name: 'x', scopes: ['nothing'], 'a/b~c': 1, colour: 'red' },
    });
    expectProblem(response, 'invalid');
    expect(response.body.errors).toEqual(
      expect.arrayContaining([
        { pointer: '/a~1b~0c', detail: 'is not a known field' },
        { pointer: '/colour', detail: 'is not a known field' },
        { pointer: '/scopes', detail: expect.stringContaining('must be one of') },
      ]),
    );
  });

  it.each(['/v1/listeners/none/resume', '/v1/listeners/none/rotate-secret', '/v1/schedules/none/pause'])(
    'is refused if its body would be ignored: %s',
    async (path) => {
      const response = await replica.call('POST', path, { body: { reason: 'done' } });
      expectProblem(response, 'invalid');
      expect(response.body.errors).toEqual([{ pointer: '/reason', detail: 'is not a known field' }]);
      for (const body of ['1', 'null']) expectProblem(await replica.call('POST', path, { body }), 'invalid');
      expectProblem(await replica.call('POST', path, { body: {} }), 'not-found');
      expectProblem(await replica.call('POST', path), 'not-found');
    },
  );

  it.each(['[]', '1', '"x"', 'null'])('must have an object, not %s', async (body) => {
    const response = await replica.call('POST', '/v1/api-keys', { body });
    expectProblem(response, 'invalid');
    expect(response.body.errors).toEqual([{ pointer: '', detail: 'must be an object' }]);
  });

  it('gets the place of what cannot be stored exactly', async () => {
    const response = await replica.call('POST', '/v1/api-keys', { body: '{"name":"a","name":"b"}' });
    expectProblem(response, 'invalid');
    expect(response.body.errors).toEqual([{ pointer: '/name', detail: expect.any(String) }]);
  });

  it('is served in spite of an unknown expectation', async () => {
    const response = await sendRaw(
      replica.url,
      'GET /livez HTTP/1.1\r\nhost: x\r\nexpect: wonders\r\nconnection: close\r\n\r\n',
    );
    expect([response.status, response.body]).toEqual([200, '{"status":"alive"}']);
  });
});

describe('a message that arrived completely', () => {
  const post = (id: string, headers = '') => {
    const body = JSON.stringify({ id, type: 't', payload: 1 });
    return (
      `POST /v1/messages HTTP/1.1\r\n${AS_ADMIN}content-type: application/json\r\n${headers}` +
      `content-length: ${body.length}\r\n\r\n${body}`
    );
  };
  const isStored = async (id: string) => (await replica.call('GET', `/v1/messages/${id}`)).status === 200;

  it.each(['x', '\r\n', 'GET / HTTP/1.1\r\n\r\n'])(
    'gets 202 whatever follows its "Connection: close": %j',
    async (rest) => {
      const id = `closed-${rest.length}`;
      const response = await sendRaw(replica.url, post(id, 'connection: close\r\n') + rest);
      expect([response.status, JSON.parse(response.body).id]).toEqual([202, id]);
      expect(await isStored(id)).toBe(true);
    },
  );

  it('gets its response before the invalid input after it is refused', async () => {
    const bytes = `${post('before-1')}${post('before-2')}not HTTP\r\n\r\n`;
    const { status, body } = await sendRaw(replica.url, bytes);
    const reported = body.match(/HTTP\/1\.1 \d+|"id":"[^"]+"/g);
    expect([status, ...reported!]).toEqual([
      202,
      '"id":"before-1"',
      'HTTP/1.1 202',
      '"id":"before-2"',
      'HTTP/1.1 400',
    ]);
    for (const id of ['before-1', 'before-2']) expect(await isStored(id)).toBe(true);
  });

  it('gets its response before a later request that does not arrive in time', async () => {
    const { status, body } = await sendRaw(replica.url, `${post('before-slow')}${post('slow').slice(0, -1)}`);
    expect([status, body.match(/HTTP\/1\.1 \d+/g)]).toEqual([202, ['HTTP/1.1 408']]);
    expect(await isStored('slow')).toBe(false);
  });
});

describe('a body that is too large', () => {
  it('is read to its end, so that its sender sees the 413, and the connection serves on', async () => {
    const large =
      `POST /v1/api-keys HTTP/1.1\r\n${AS_ADMIN}content-type: application/json\r\n` +
      `content-length: 8000000\r\n\r\n${'x'.repeat(8_000_000)}`;
    const next = `GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`;
    const { status, body } = await sendRaw(replica.url, large + next);
    expect([status, body.match(/HTTP\/1\.1 \d+/g)]).toEqual([413, ['HTTP/1.1 200']]);
  });
});

describe('endless requests on one connection', () => {
  it('close it, are counted, and do not affect other clients', async () => {
    const [pipelined] = await metricIncreases(
      replica,
      ['http_connections_closed_total{reason="pipelined"}'],
      async () => {
        const flood = sendRaw(replica.url, 'GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(3_000));
        await flood.catch(() => undefined);
        expect((await replica.call('GET', '/livez')).status).toBe(200);
      },
    );
    expect(pipelined).toBe(1);
  });
});

describe('an empty body', () => {
  const bodyless = (method: string, path: string, type: string) =>
    sendRaw(
      replica.url,
      `${method} ${path} HTTP/1.1\r\n${AS_ADMIN}content-type: ${type}\r\nconnection: close\r\n` +
        `${method === 'DELETE' ? '' : 'content-length: 0\r\n'}\r\n`,
    );

  it.each([
    ['DELETE', '/v1/keys/k/hold'],
    ['DELETE', '/v1/listeners/none'],
    ['DELETE', '/v1/schedules/none'],
    ['DELETE', '/v1/api-keys/none'],
    ['DELETE', '/v1/dead-letters/none'],
    ['POST', '/v1/dead-letters/none/revive'],
    ['POST', '/v1/listeners/none/pause'],
    ['POST', '/v1/listeners/none/resume'],
    ['POST', '/v1/listeners/none/rotate-secret'],
    ['POST', '/v1/listeners/none/test'],
    ['POST', '/v1/schedules/none/pause'],
    ['POST', '/v1/schedules/none/resume'],
  ])('is no body, whatever content type a client sends: %s %s', async (method, path) => {
    for (const type of ['application/json', 'application/x-www-form-urlencoded'])
      expectRawProblem(await bodyless(method, path, type), 'not-found');
  });

  it.each([
    ['POST', '/v1/messages'],
    ['POST', '/v1/messages/batch'],
    ['POST', '/v1/api-keys'],
    ['POST', '/v1/dead-letters/revive'],
    ['POST', '/v1/dead-letters/discard'],
    ['POST', '/v1/listeners/none/replay'],
    ['PUT', '/v1/listeners/none'],
    ['PUT', '/v1/schedules/none'],
    ['PUT', '/v1/keys/k/hold'],
  ])('is not valid JSON where a body is required: %s %s', async (method, path) => {
    expectRawProblem(await bodyless(method, path, 'application/json'), 'malformed-json');
    const typed = path.startsWith('/v1/messages');
    expectProblem(await replica.call(method, path), typed ? 'unsupported-media-type' : 'malformed-json');
  });
});

describe('a request id', () => {
  it.each(['abc', 'A-1_b.c:d', 'x'.repeat(128)])('is taken from the caller: %s', async (id) => {
    const response = await replica.call('GET', '/livez', { headers: { 'x-request-id': id } });
    expect(response.headers.get('x-request-id')).toBe(id);
  });

  it.each(['a b', '"', '<script>', '{jndi}', 'x'.repeat(129), 'é', 'a, b'])(
    'is a new one if the caller’s could do harm in a log: %s',
    async (id) => {
      const response = await replica.call('GET', '/livez', { headers: { 'x-request-id': id } });
      expect(response.headers.get('x-request-id')).toMatch(UUID);
    },
  );
});

describe('an error of the service', () => {
  const CANARY = 'canary-of-the-inside';

  @Controller()
  class Faulty {
    @Get('error')
    @Allow('public')
    error() {
      throw new Error(CANARY);
    }

    @Get('text')
    @Allow('public')
    async text() {
      throw CANARY;
    }

    @Get('nothing')
    @Allow('public')
    nothing() {
      throw undefined;
    }

    @Get('unserializable')
    @Allow('public')
    unserializable() {
      return { [CANARY]: 1n };
    }

    @Get('nest')
    @Allow('public')
    nest() {
      throw new NotImplementedException(CANARY);
    }

    @Get('refused')
    @Allow('public')
    refused() {
      throw new BadRequestException(CANARY);
    }

    @Get('away')
    @Allow('public')
    away() {
      throw Object.assign(new Error(CANARY), { code: '57P01' });
    }

    @Get('value')
    @Allow('public')
    value() {
      throw Object.assign(new Error(CANARY), { code: '22008' });
    }

    @Get('slow')
    @Allow('public')
    slow() {
      begun();
      return gate;
    }
  }

  @Module({ controllers: [Faulty] })
  class FaultyModule {}

  let begun: () => void;
  let open: (response: string) => void;
  const hasBegun = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const gate = new Promise<string>((resolve) => {
    open = resolve;
  });
  const lines: string[] = [];
  let nest: NestFastifyApplication;
  let url: string;

  beforeAll(async () => {
    const settings = loadSettings({ PORT: '0' });
    const server = new Server(settings, createLog(settings, { write: (line) => void lines.push(line) }));
    nest = await NestFactory.create<NestFastifyApplication>(FaultyModule, server.adapter, {
      logger: false,
      bodyParser: false,
      forceCloseConnections: false,
    });
    nest.useGlobalFilters(new ProblemFilter(server));
    await nest.listen(0, '127.0.0.1');
    url = await nest.getUrl();
  });
  afterAll(() => nest.close());

  it.each([
    ['error', 'internal'],
    ['text', 'internal'],
    ['nothing', 'internal'],
    ['unserializable', 'internal'],
    ['nest', 'internal'],
    ['away', 'database-away'],
    ['value', 'invalid'],
  ])(
    'shows the caller nothing, and is logged completely with the request id: %s → %s',
    async (path, problem) => {
      const response = await fetch(`${url}/${path}`, { headers: { 'x-request-id': `id-of-${path}` } });
      const text = await response.text();

      expectProblem(
        { status: response.status, headers: response.headers, body: JSON.parse(text), text },
        problem,
      );
      expect(text + JSON.stringify([...response.headers])).not.toContain(CANARY);
      const logged = lines
        .map((line) => JSON.parse(line))
        .filter(({ requestId }) => requestId === `id-of-${path}`);
      expect(logged).toEqual([
        expect.objectContaining({
          level: 'error',
          event: `http.${problem}`,
          method: 'GET',
          route: `/${path}`,
        }),
      ]);
      if (path !== 'nothing')
        expect(logged[0].error.stack ?? logged[0].error.message).toMatch(/canary|BigInt/);
    },
  );

  it('is not a refusal of the framework, which is not logged and does not show its text', async () => {
    const before = lines.length;
    const response = await fetch(`${url}/refused`);
    const text = await response.text();
    expectProblem(
      { status: response.status, headers: response.headers, body: JSON.parse(text), text },
      'bad-request',
    );
    expect(text).not.toContain(CANARY);
    expect(lines).toHaveLength(before);
  });

  it('does not occur at a stop: running requests are finished, new ones are refused with 503', async () => {
    const before = lines.length;
    const { port } = new URL(url);
    const socket = connect(Number(port), '127.0.0.1');
    const received: Buffer[] = [];
    socket.on('data', (chunk) => received.push(chunk));
    socket.write('GET /slow HTTP/1.1\r\nhost: x\r\n\r\n');
    await hasBegun;
    const closed = nest.close();
    await new Promise<void>((resolve) => {
      // Refused connections show that the server has started to close.
      const ask = () =>
        httpRequest({ port, host: '127.0.0.1' })
          .on('error', () => resolve())
          .on('response', ask)
          .end();
      ask();
    });
    socket.write('GET /slow HTTP/1.1\r\nhost: x\r\n\r\n');
    open('done');
    await Promise.all([closed, once(socket, 'close')]);

    const [first, second] = Buffer.concat(received)
      .toString()
      .split(/(?<=done)/);
    expect(first).toMatch(/^HTTP\/1\.1 200 [\s\S]*done$/);
    expect(second).toMatch(/^HTTP\/1\.1 503 /);
    expect(second).toContain('urn:sluice:problems/stopping');
    expect(second).toMatch(/retry-after: 1/i);
    expect(lines).toHaveLength(before);
  });
});

describe('a route without a declared access', () => {
  @Controller()
  class Careless {
    @Get('secrets')
    secrets() {
      return 'all of them';
    }
  }

  @Module({ controllers: [Careless] })
  class CarelessModule {}

  it('prevents the start', async () => {
    const settings = loadSettings({});
    const server = new Server(settings, createLog(settings, { write: () => undefined }));
    const nest = await NestFactory.create(CarelessModule, server.adapter, {
      logger: false,
      abortOnError: false,
      bodyParser: false,
    });
    await expect(nest.init()).rejects.toThrow('GET /secrets does not declare who may call it: add @Allow(…)');
    await nest.close();
  });
});

function expectProblem(
  response: Pick<ApiResponse, 'status' | 'headers' | 'text' | 'body'>,
  name: string,
): void {
  const { status, title } = PROBLEMS[name as keyof typeof PROBLEMS];
  expect(response.body).toEqual({
    type: problemType(name as keyof typeof PROBLEMS),
    title,
    status,
    detail: expect.any(String),
    ...(response.body.errors ? { errors: response.body.errors } : {}),
  });
  expect(response.status).toBe(status);
  expect(response.headers.get('content-type')).toBe('application/problem+json');
  expect(response.headers.get('x-request-id')).toMatch(/^[\w.:-]{1,128}$/);
  expect(response.headers.has('retry-after')).toBe([429, 503].includes(status));
  expect(response.text).not.toMatch(/node_modules|\.[jt]s:\d|FST_|SELECT|Error\b|at \w+\.\w+/);
}

function expectRawProblem({ status, headers, body }: RawResponse, name: string): void {
  expectProblem({ status, headers, text: body, body: JSON.parse(body) }, name);
  expect(headers.get('connection')).toBe('close');
}
