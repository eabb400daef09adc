import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { until } from '../../test/support/until.ts';
import { type ClosedFor, Connections, MAX_UNANSWERED } from './connections.ts';

/** More than the buffers of the two sockets between us hold. */
const LARGE = Buffer.alloc(16 * 1024 * 1024);
const GET = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n';
const POST = 'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n';

let server: Server;
let connections: Connections;
let closed: ClosedFor[];
/** Requests that were begun and wait for `answer`. */
let begun: { request: IncomingMessage; response: ServerResponse }[];

afterEach(() => {
  server.closeAllConnections();
  server.close();
});

describe('requests that are sent without waiting for answers', () => {
  it('are all answered, in order, as long as they are not too many', async () => {
    await serve();
    const socket = await open(POST.repeat(MAX_UNANSWERED));
    await until(() => begun.length === MAX_UNANSWERED);
    for (const [n, { response }] of begun.reverse().entries()) response.end(`<${MAX_UNANSWERED - 1 - n}>`);
    const expected = Array.from({ length: MAX_UNANSWERED }, (_, n) => `<${n}>`);
    await until(() => (socket.text().match(/<\d+>/g)?.length ?? 0) === MAX_UNANSWERED);
    expect(socket.text().match(/<\d+>/g)).toEqual(expected);
    expect(closed).toEqual([]);
  });

  it('end the connection when they are too many, before what is beyond is begun', async () => {
    await serve();
    const socket = await open(POST.repeat(1_000));
    await socket.gone;
    expect(begun.length).toBe(MAX_UNANSWERED);
    expect(closed).toEqual(['pipelined']);
    expect(connections.size).toBe(0);
  });

  it('are read one after the other: one answer of a connection is in memory at a time', async () => {
    await serve();
    const socket = await open(GET.repeat(3));
    for (const n of [1, 2, 3]) {
      await until(() => begun.length === n);
      // All three came in one read: whatever is begun with it has been by now.
      await new Promise(setImmediate);
      expect(begun.length).toBe(n);
      begun[n - 1]!.response.end(LARGE);
    }
    await until(() => socket.bytes() > 3 * LARGE.length);
    expect(closed).toEqual([]);
  });

  it('leave nothing behind when the caller goes before their turn', async () => {
    await serve();
    const gone: number[] = [];
    const socket = await open(POST.repeat(3) + GET);
    await until(() => begun.length === 3);
    for (const [n, { response }] of begun.entries()) response.once('close', () => gone.push(n));
    socket.destroy();
    await until(() => gone.length === 3);
    expect(begun.length).toBe(3);
    expect(connections.size).toBe(0);
  });
});

describe('a connection whose caller does not read', () => {
  it('is closed after the write timeout', async () => {
    await serve({ writeTimeout: 200 });
    const socket = await open(GET, { reading: false });
    await until(() => begun.length === 1);
    begun[0]!.response.end(LARGE);
    await until(() => connections.size === 0);
    expect(closed).toEqual(['stalled']);
    socket.destroy();
  });

  it('is closed too when it goes on sending after it was refused', async () => {
    await serve({ writeTimeout: 200 });
    const socket = await open(`${GET}not HTTP\r\n\r\n`, { reading: false });
    await until(() => begun.length === 1);
    begun[0]!.response.end(LARGE);
    const dripping = setInterval(() => socket.write('x'), 20);
    await until(() => connections.size === 0);
    clearInterval(dripping);
    expect(closed).toEqual(['stalled']);
    socket.destroy();
  });

  it('is left alone while it only reads slowly', async () => {
    await serve({ writeTimeout: 1_000 });
    const socket = await open(GET, { reading: false });
    await until(() => begun.length === 1);
    begun[0]!.response.end(LARGE);
    const sips = setInterval(() => socket.sip(), 5);
    await until(() => socket.bytes() > LARGE.length);
    clearInterval(sips);
    expect(closed).toEqual([]);
  });

  it('is not taken for one that waits for its answer, however long that takes', async () => {
    await serve({ writeTimeout: 100 });
    const socket = await open(GET);
    let silences = 0;
    server.on('timeout', () => silences++);
    await until(() => silences === 1);
    begun[0]!.response.end('<late>');
    await until(() => socket.text().includes('<late>'));
    expect(closed).toEqual([]);
  });

  it('is not taken for one that is kept alive, which is closed when that time is over', async () => {
    await serve({ writeTimeout: 100, keepAliveTimeout: 600 });
    const socket = await open(GET);
    await until(() => begun.length === 1);
    begun[0]!.response.end('<once>');
    const answered = performance.now();
    await until(() => socket.text().includes('<once>'));
    await socket.gone;
    expect(performance.now() - answered).toBeGreaterThan(500);
    expect(closed).toEqual([]);
  });
});

describe('connections', () => {
  it('are refused beyond the limit, and taken again when others have gone', async () => {
    await serve({ connectionsLimit: 2 });
    const [first] = [await open(''), await open('')];
    await until(() => connections.size === 2);
    const refused = await open('');
    await refused.gone;
    expect(closed).toEqual(['limit']);
    first.destroy();
    await until(() => connections.size === 1);
    const next = await open(GET);
    await until(() => begun.length === 1);
    next.destroy();
  });
});

describe('what came behind whole requests and is not HTTP', () => {
  it('is answered behind their answers', async () => {
    await serve();
    const socket = await open(`${POST.repeat(2)}not HTTP\r\n\r\n`);
    await until(() => begun.length === 2);
    for (const { response } of begun.reverse()) response.end('<stored>');
    await socket.gone;
    expect(socket.text().match(/<\w+>/g)).toEqual(['<stored>', '<stored>', '<broken>']);
  });
});

async function serve(
  options: { connectionsLimit?: number; writeTimeout?: number; keepAliveTimeout?: number } = {},
): Promise<void> {
  const { connectionsLimit = 100, writeTimeout = 30_000, keepAliveTimeout = 30_000 } = options;
  closed = [];
  begun = [];
  server = createServer({ keepAliveTimeout });
  connections = new Connections({ connectionsLimit, writeTimeout }, (reason) => closed.push(reason));
  connections.watch(server, (request, response) => begun.push({ request, response }));
  server.on('clientError', (_error, socket) =>
    connections.end(socket as Socket, () => {
      socket.write('<broken>');
      (socket as Socket).destroySoon();
    }),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
}

async function open(bytes: string, { reading = true } = {}) {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const chunks: Buffer[] = [];
  let size = 0;
  const keep = (chunk: Buffer) => {
    size += chunk.length;
    if (chunks.length < 100) chunks.push(chunk);
  };
  if (reading) socket.on('data', keep);
  else socket.pause();
  socket.on('error', () => undefined);
  const gone = once(socket, 'close');
  await once(socket, 'connect');
  socket.write(bytes);
  return {
    gone,
    text: () => Buffer.concat(chunks).toString('latin1'),
    bytes: () => size,
    write: (more: string) => socket.write(more),
    destroy: () => socket.destroy(),
    /** Takes a part of what has come. */
    sip: () => {
      const chunk = socket.read() as Buffer | null;
      if (chunk) keep(chunk);
    },
  };
}
