import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type FastifyInstance, fastify } from 'fastify';
import { until } from '../../test/support/until.ts';
import { Problem } from './problems.ts';
import { ResponsesInFlight } from './responses-in-flight.ts';

const MIB = 1024 * 1024;
const LIMIT = 64 * MIB;

let server: FastifyInstance;
let responses: ResponsesInFlight;
let sockets: Socket[];

beforeEach(async () => {
  responses = new ResponsesInFlight({ responsesLimit: LIMIT });
  sockets = [];
  server = fastify();
  server.addHook('onSend', async (_request, reply, payload) => responses.track(payload as string, reply));
  server.setErrorHandler((error, _request, reply) => reply.code((error as Problem).status).send());
  const handler = (_request: unknown, reply: { send(text: string): unknown }) =>
    reply.send('x'.repeat(40 * MIB));
  server.get('/', handler);
  server.post('/', handler);
  await server.listen({ port: 0, host: '127.0.0.1' });
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await server.close();
});

/** A client that does not read its response, which is more than fits into the buffers of both sockets. */
async function unread(method = 'GET'): Promise<Socket> {
  const before = freeBytes();
  const { hostname, port } = new URL(server.listeningOrigin);
  const socket = connect(Number(port), hostname).pause();
  sockets.push(socket);
  await once(socket, 'connect');
  socket.write(`${method} / HTTP/1.1\r\nhost: x\r\n\r\n`);
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

const get = async () => (await fetch(server.listeningOrigin)).status;

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
