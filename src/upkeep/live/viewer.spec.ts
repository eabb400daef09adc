import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { Viewer } from './viewer.ts';

/** More than fits into the buffers of both sockets. */
const LARGE = `data: ${'x'.repeat(16 * 1024 * 1024)}\n\n`;

let server: Server;
let client: Socket;
let response: ServerResponse;
let viewer: Viewer;

beforeEach(async () => {
  server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.on('error', () => undefined);
  client.pause();
  client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
  [, response] = (await once(server, 'request')) as [unknown, ServerResponse];
  viewer = new Viewer('owner', response, () => Promise.resolve(true));
});
afterEach(() => {
  client.destroy();
  server.close();
});

describe('a viewer that does not read', () => {
  it('gets nothing more until it has read, and is disconnected after 30 s', async () => {
    viewer.send(LARGE, 0);
    const unsent = response.writableLength;
    expect(unsent).toBeGreaterThan(64 * 1024);
    viewer.send('more', 1_000);
    viewer.send('more', 31_000);
    expect([response.writableLength <= unsent, response.destroyed]).toEqual([true, false]);
    viewer.send('more', 31_001);
    expect(response.destroyed).toBe(true);
  });

  it('starts over when it reads again', async () => {
    viewer.send(LARGE, 0);
    viewer.send('skipped', 20_000);
    client.resume();
    await until(() => response.writableLength === 0);
    viewer.send(LARGE, 25_000);
    client.pause();
    await new Promise(setImmediate);
    viewer.send(LARGE, 40_000);
    expect(response.destroyed).toBe(false);
  });

  it('does not delay the end of its stream', () => {
    viewer.send(LARGE, 0);
    viewer.end();
    expect(response.destroyed).toBe(true);
  });
});
