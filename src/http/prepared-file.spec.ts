import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import Fastify, { type FastifyInstance } from 'fastify';
import { httpBytes } from '../../test/support/http-bytes.ts';
import { IMMUTABLE, PreparedFile } from './prepared-file.ts';

const TEXT = 'a sluice lets water pass, '.repeat(1_000);

let fastify: FastifyInstance;
let url: string;
const payloads: unknown[] = [];

beforeAll(async () => {
  const large = await PreparedFile.of('text/plain; charset=utf-8', TEXT, { 'x-more': 'yes' });
  const tiny = await PreparedFile.of('text/plain; charset=utf-8', 'a', { 'cache-control': IMMUTABLE });
  fastify = Fastify();
  fastify.addHook('onSend', async (_request, _reply, payload) => void payloads.push(payload));
  fastify.get('/large', (request, reply) => large.send(request, reply));
  fastify.get('/tiny', (request, reply) => tiny.send(request, reply));
  url = await fastify.listen({ host: '127.0.0.1', port: 0 });
});
afterAll(() => fastify.close());

describe('a prepared file', () => {
  it.each<[acceptEncoding: string | undefined, encoding: string | undefined]>([
    [undefined, undefined],
    ['', undefined],
    ['br', 'br'],
    ['gzip', 'gzip'],
    ['gzip, deflate, br, zstd', 'br'],
    ['GZIP;Q=1', 'gzip'],
    ['br;q=0.2, gzip;q=0.8', 'gzip'],
    ['br;q=0, gzip', 'gzip'],
    ['*', 'br'],
    ['*;q=0', undefined],
    ['br;q=0, *', 'gzip'],
    ['identity, br;q=0.5', undefined],
    ['identity;q=0.1, gzip;q=0.5', 'gzip'],
    ['zstd', undefined],
    ['br;q=many', undefined],
    ['__proto__, constructor;q=1', undefined],
  ])('is sent in the encoding that the caller prefers: %j → %s', async (acceptEncoding, encoding) => {
    const response = await get(
      '/large',
      acceptEncoding === undefined ? {} : { 'accept-encoding': acceptEncoding },
    );

    expect(response.headers['content-encoding']).toBe(encoding);
    expect(response.headers.vary).toBe('accept-encoding');
    expect(decoded(response.body, encoding)).toBe(TEXT);
    expect(response.headers['content-length']).toBe(String(response.body.length));
  });

  it('is sent uncompressed when compression would make it larger', async () => {
    const response = await get('/tiny', { 'accept-encoding': 'br, gzip' });
    expect([response.headers['content-encoding'], String(response.body)]).toEqual([undefined, 'a']);
  });

  it('is not sent again to a caller that has this encoding of it', async () => {
    const [br, gzip] = await Promise.all([
      get('/large', { 'accept-encoding': 'br' }),
      get('/large', { 'accept-encoding': 'gzip' }),
    ]);
    expect(br.headers.etag).not.toBe(gzip.headers.etag);

    const has = (etag: unknown) => get('/large', { 'accept-encoding': 'br', 'if-none-match': String(etag) });
    const again = await has(br.headers.etag);
    expect([again.status, again.body.length, again.headers.etag]).toEqual([304, 0, br.headers.etag]);
    expect([again.headers.vary, again.headers['cache-control']]).toEqual(['accept-encoding', 'no-cache']);
    expect((await has(`"other", W/${br.headers.etag}`)).status).toBe(304);
    expect((await has('*')).status).toBe(304);
    expect((await has(gzip.headers.etag)).status).toBe(200);
  });

  it('is described, and not sent, for a HEAD', async () => {
    const { date: _then, ...headers } = (await get('/large', { 'accept-encoding': 'br' })).headers;
    const head = await httpBytes(`${url}/large`, { 'accept-encoding': 'br' }, 'HEAD');
    expect([head.status, head.body.length]).toEqual([200, 0]);
    expect(head.headers).toMatchObject(headers);
    expect(headers).toMatchObject({ 'content-type': 'text/plain; charset=utf-8', 'x-more': 'yes' });
  });

  it('is one Buffer for all requests: responses that wait to be read need no copy each', async () => {
    payloads.length = 0;
    for (const encoding of ['br', 'br', 'gzip', 'gzip', 'identity', 'identity']) {
      await get('/large', { 'accept-encoding': encoding });
    }
    expect(payloads.every((payload) => payload instanceof Buffer)).toBe(true);
    expect(new Set(payloads).size).toBe(3);
  });

  it('is cached without revalidation if its URL identifies its content', async () => {
    expect((await get('/tiny')).headers['cache-control']).toBe('public, max-age=31536000, immutable');
    expect((await get('/large')).headers['cache-control']).toBe('no-cache');
  });
});

function get(path: string, headers: Record<string, string> = {}) {
  return httpBytes(url + path, headers);
}

function decoded(payload: Buffer, encoding: string | undefined): string {
  if (encoding === 'br') return brotliDecompressSync(payload).toString();
  return (encoding === 'gzip' ? gunzipSync(payload) : payload).toString();
}
