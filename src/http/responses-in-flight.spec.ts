import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type FastifyInstance, type FastifyReply, fastify } from 'fastify';
import { until } from '../../test/support/until.ts';
import { PreparedFile } from './prepared-file.ts';
import { Problem } from './problems.ts';
import { ResponsesInFlight } from './responses-in-flight.ts';

const MIB = 1024 * 1024;
const LIMIT = 64 * MIB;
/** Large enough to be counted. */
const MIN_PART = 64 * 1024;

let server: FastifyInstance;
let responses: ResponsesInFlight;
let sockets: Socket[];

beforeEach(async () => {
  responses = new ResponsesInFlight({ responsesLimit: LIMIT });
  sockets = [];
  server = fastify();
  server.addHook('onSend', async (_request, reply, payload) => responses.track(payload, reply));
  server.setErrorHandler((error, _request, reply) => reply.code((error as Problem).status).send());
  const handler = (_request: unknown, reply: { send(text: string): unknown }) =>
    reply.send('x'.repeat(40 * MIB));
  server.get('/', handler);
  server.post('/', handler);
  const file = await PreparedFile.of('text/plain', 'y'.repeat(40 * MIB));
  server.get('/file', async (request, reply) => file.send(request, reply));
  server.get('/bytes', (_request, reply) => void reply.send(Buffer.alloc(40 * MIB)));
  await server.listen({ port: 0, host: '127.0.0.1' });
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await server.close();
});

/** A client that does not read its response, which is more than fits into the buffers of both sockets. */
async function unread(method = 'GET', path = '/'): Promise<Socket> {
  const before = freeBytes();
  const { hostname, port } = new URL(server.listeningOrigin);
  const socket = connect(Number(port), hostname).pause();
  sockets.push(socket);
  await once(socket, 'connect');
  socket.write(`${method} ${path} HTTP/1.1\r\nhost: x\r\n\r\n`);
  await until(() => freeBytes() !== before);
  return socket;
}

/** What the next large response may have, times eight. */
function freeBytes(): number {
  try {
    const { bytes, release } = responses.reserve(LIMIT);
    release();
    return bytes * 8;
  } catch (error) {
    if (error instanceof Problem) return 0;
    throw error;
  }
}

const IDENTITY = { headers: { 'accept-encoding': 'identity' } };
const get = async (path = '/') => (await fetch(`${server.listeningOrigin}${path}`, IDENTITY)).status;

describe('responses that are not read', () => {
  it('make the next ones smaller, and leave something for others', () => {
    const sizes = Array.from({ length: 20 }, () => responses.reserve(LIMIT).bytes);
    expect(sizes.slice(0, 3)).toEqual([8 * MIB, 7 * MIB, 6.125 * MIB]);
    expect(sizes.at(-1)).toBeGreaterThan(512 * 1024);
    expect(responses.reserve(1_000).bytes).toBe(1_000);
  });

  it('take space until their client is gone', async () => {
    const socket = await unread();
    expect(freeBytes()).toBe(24 * MIB);
    socket.destroy();
    await until(() => freeBytes() === LIMIT);
  });

  it('keep pages from others beyond the limit, until there is space again', async () => {
    const socket = await unread();
    expect(await get()).toBe(503);
    socket.destroy();
    await until(() => freeBytes() === LIMIT);
    expect(await get()).toBe(200);
  });

  it('count as bytes as they do as text', async () => {
    const socket = await unread('GET', '/bytes');
    expect(freeBytes()).toBe(24 * MIB);
    socket.destroy();
    await until(() => freeBytes() === LIMIT);
  });

  it('do not count if each response sends the same bytes', async () => {
    await unread();
    expect(await get('/file')).toBe(200);
  });

  it('keep no more than what is sent of a larger buffer', () => {
    const whole = Buffer.alloc(MIB);
    const raw = { once: () => undefined };
    for (const bytes of [1, MIN_PART]) {
      const body = responses.track(whole.subarray(0, bytes), { raw, request: {} } as unknown as FastifyReply);
      expect((body as Buffer).buffer.byteLength).toBeLessThan(2 * MIN_PART);
      expect((body as Buffer).length).toBe(bytes);
    }
  });

  it('are not refused after something was handed out, but before', async () => {
    await unread('POST');
    await unread('POST');
    expect(() => responses.reserve(1)).toThrow(Problem);
  });
});

describe('a reservation', () => {
  it('ends when it is released', () => {
    const { release } = responses.reserve(LIMIT);
    expect(freeBytes()).toBe(56 * MIB);
    release();
    expect(freeBytes()).toBe(LIMIT);
  });
});
