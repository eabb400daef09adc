import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Sluice as FetchSluice, type SluiceOptions } from '../../packages/client/src/index.ts';
import { Sluice as NodeSluice } from '../../packages/client/src/node.ts';

const servers: Server[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  }
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const ENTRIES = [
  ['fetch', (options: SluiceOptions) => new FetchSluice(options)],
  ['node:http', (options: SluiceOptions) => new NodeSluice(options)],
] as const;

describe.each(ENTRIES)('a request over %s', (_name, open) => {
  it('carries the API key, and a body as JSON', async () => {
    const seen: unknown[] = [];
    const url = await serve(async (request, response) => {
      let body = '';
      for await (const chunk of request) body += chunk;
      const { authorization, 'content-type': type, accept } = request.headers;
      seen.push([request.method, request.url, authorization, type, accept, body]);
      response.end(body ? '{"ok":true}' : '');
    });
    const sluice = open({ url: `${url}/base/`, apiKey: 'sk_a_b' });
    expect(await sluice.call('POST', '/v1/x', { key: 'Zoë' })).toEqual({ ok: true });
    expect(await open({ url }).call('GET', '/v1/y')).toBeUndefined();
    const json = 'application/json';
    expect(seen).toEqual([
      ['POST', '/base/v1/x', 'Bearer sk_a_b', json, json, '{"key":"Zoë"}'],
      ['GET', '/v1/y', undefined, undefined, json, ''],
    ]);
  });

  it('does not follow a redirect, which would carry the API key elsewhere', async () => {
    let elsewhere = 0;
    const other = await serve((_request, response) => {
      elsewhere += 1;
      response.end('{}');
    });
    const url = await serve((_request, response) => response.writeHead(307, { location: other }).end());
    await expect(open({ url, apiKey: 'sk_a_b' }).call('GET', '/')).rejects.toMatchObject({ status: 307 });
    expect(elsewhere).toBe(0);
  });

  it('fails with the problem of the service, or with what a proxy says instead', async () => {
    const problem = {
      type: 'urn:sluice:problems/invalid',
      title: 'Validation failed',
      status: 422,
      detail: '/type is required',
      errors: [{ pointer: '/type', detail: 'is required' }],
    };
    const url = await serve((request, response) => {
      if (request.url === '/proxy') response.writeHead(403).end('<h1>Forbidden</h1>');
      else response.writeHead(422).end(JSON.stringify(problem));
    });
    const sluice = open({ url });
    await expect(sluice.call('POST', '/')).rejects.toMatchObject({
      ...problem,
      name: 'SluiceError',
      message: 'Validation failed: /type is required',
      retryable: false,
    });
    await expect(sluice.call('POST', '/proxy')).rejects.toMatchObject({
      status: 403,
      type: 'about:blank',
      detail: expect.stringContaining('<h1>Forbidden</h1>'),
    });
  });

  it('fails when there is no response in time, or none that can be read', async () => {
    const url = await serve((request, response) => {
      if (request.url === '/cut') response.writeHead(200, { 'content-length': 10 }).write('{"a"');
      if (request.url === '/cut') setImmediate(() => response.destroy());
      if (request.url === '/text') response.end('hello');
    });
    const sluice = open({ url, timeout: '200ms' });
    await expect(sluice.call('POST', '/silence')).rejects.toMatchObject({
      type: 'urn:sluice:client/timeout',
      retryable: true,
    });
    await expect(sluice.call('POST', '/cut')).rejects.toMatchObject({
      type: 'urn:sluice:client/unreachable',
    });
    await expect(sluice.call('POST', '/text')).rejects.toMatchObject({
      type: 'urn:sluice:client/bad-response',
    });
  });

  it('is repeated by call() unless it is a POST', async () => {
    const methods: string[] = [];
    const url = await serve((request, response) => {
      methods.push(request.method!);
      response.writeHead(methods.length < 3 ? 503 : 200).end('{}');
    });
    await open({ url }).call('PUT', '/');
    expect(methods).toEqual(['PUT', 'PUT', 'PUT']);
    methods.length = 0;
    await expect(open({ url }).call('POST', '/')).rejects.toMatchObject({ status: 503 });
    expect(methods).toEqual(['POST']);
  });
});

describe('a connection of the entry for Node', () => {
  it('is kept for the next request', async () => {
    const sockets = new Set<Socket>();
    const url = await serve((request, response) => {
      sockets.add(request.socket);
      response.end('{}');
    });
    const sluice = new NodeSluice({ url });
    for (let n = 0; n < 5; n++) await sluice.call('GET', '/');
    expect(sockets.size).toBe(1);
    sluice.close();
  });

  it('is replaced at once if the service closes it while a request is on its way', async () => {
    const requests = new Map<Socket, number>();
    const url = await serve((request, response) => {
      const nth = (requests.get(request.socket) ?? 0) + 1;
      requests.set(request.socket, nth);
      if (nth === 1) response.end('{}');
      else request.socket.resetAndDestroy();
    });
    const sluice = new NodeSluice({ url });
    for (let n = 0; n < 3; n++) expect(await sluice.call('POST', '/')).toEqual({});
    expect([...requests.values()]).toEqual([2, 2, 1]);
    sluice.close();
  });
});
