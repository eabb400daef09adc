import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { ADMIN_KEY } from '../support/app.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const { replica } = sharedReplica({ ROLES: 'api', BODIES_LIMIT: '1MiB', BATCH_BODY_LIMIT: '4MiB' });

const message = (size: number) => {
  const around = '{"type":"t","payload":""}';
  return around.replace('""', `"${'x'.repeat(size - around.length)}"`);
};
const post = (body: string | object, path = '/v1/messages') => replica.call('POST', path, { body });
/** No response for a while: no replica handles messages here. */
const WAITING = `GET /v1/candidates?after=unhandled&wait=30s HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${ADMIN_KEY}\r\n\r\n`;
const TOO_MUCH = /^HTTP\/1\.1 503 .*retry-after: 1\r\n.*urn:sluice:problems\/overloaded/s;

describe('concurrent bodies', () => {
  it('are refused when they exceed BODIES_LIMIT: at the headers, or as they grow', async () => {
    const body = message(900_000);
    const first = await begin(`content-length: ${body.length}`, body.slice(0, -1));
    const announced = await begin('content-length: 900000', '');
    expect(await responseOf(announced)).toMatch(TOO_MUCH);
    const chunked = await begin('transfer-encoding: chunked', `${(900_000).toString(16)}\r\n${body}\r\n`);
    expect(await responseOf(chunked)).toMatch(TOO_MUCH);
    expect((await post(message(1_000))).status).toBe(202);

    first.write(body.slice(-1));
    expect(await responseOf(first)).toMatch(/^HTTP\/1\.1 202 /);
    expect((await post(body)).status).toBe(202);
    for (const socket of [first, announced, chunked]) socket.destroy();
  });

  it('free their space when their caller disconnects', async () => {
    const body = message(900_000);
    const gone = await begin(`content-length: ${body.length}`, body.slice(0, -1));
    gone.destroy();
    await until(async () => (await post(body)).status === 202);
  });

  it('free their space when their caller disconnects before the response to an earlier request', async () => {
    const body = message(900_000);
    expect((await post({ id: 'unhandled', type: 't', payload: 1 })).status).toBe(202);
    const gone = await begin(`content-length: ${body.length}`, body.slice(0, -1), WAITING);
    gone.destroy();
    await until(async () => (await post(body)).status === 202);
  });

  it('may be larger when there is only one, and reserve no space for what they only announce', async () => {
    const silent: Socket[] = [];
    for (const _ of [1, 2, 3]) silent.push(await begin('content-length: 1000000', ''));
    const messages = Array.from({ length: 3 }, () => JSON.parse(message(900_000)));
    expect((await post({ messages }, '/v1/messages/batch')).status).toBe(202);
    for (const socket of silent) socket.destroy();
  });

  /** Resolves when the service has read what was written, or responded. */
  async function begin(length: string, part: string, before = ''): Promise<Socket> {
    const { hostname, port } = new URL(replica.url);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    const [[server]] = await Promise.all([
      once(replica.app.nest.getHttpServer(), 'connection') as Promise<[Socket]>,
      once(socket, 'connect'),
    ]);
    const head = `POST /v1/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${ADMIN_KEY}\r\n`;
    const text = `${before}${head}content-type: application/json\r\n${length}\r\n\r\n${part}`;
    socket.write(text);
    await until(() => server.bytesRead === text.length || server.bytesWritten > 0);
    return socket;
  }

  async function responseOf(socket: Socket): Promise<string> {
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
    });
    return until(() => (/\r\n\r\n.*\}/s.test(text) ? text : undefined)) as Promise<string>;
  }
});
