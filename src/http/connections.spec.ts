import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { until } from '../../test/support/until.ts';
import { type CloseReason, Connections, MAX_ACTIVE, MAX_PIPELINED_BYTES } from './connections.ts';

/** More than fits into the buffers of both sockets. */
const LARGE = Buffer.alloc(16 * 1024 * 1024);
const GET = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n';
const POST = 'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n';
const KIB = 1024;
const LONG_POST = POST.replace('host: x', `host: x\r\nlong: ${'x'.repeat(12 * KIB)}`);

let server: Server;
let connections: Connections;
let closed: CloseReason[];
/** Requests that were started and have no response yet. */
let started: { request: IncomingMessage; response: ServerResponse; stored: string | undefined }[];
const storage = new AsyncLocalStorage<string>();

afterEach(() => {
  server.closeAllConnections();
  server.close();
});

describe('pipelined requests', () => {
  it('all get their responses, in order, and at most MAX_ACTIVE run at a time', async () => {
    await serve();
    const count = 5 * MAX_ACTIVE;
    const socket = await open(POST.repeat(count));
    for (let n = 0; n < count; n += MAX_ACTIVE) {
      await until(() => started.length === n + MAX_ACTIVE);
      // All of them arrived in one read, so whatever starts with these has started by now.
      await new Promise(setImmediate);
      expect(started.length).toBe(n + MAX_ACTIVE);
      const responses = started.slice(n).map(
        ({ response }, index) =>
          () =>
            response.end(`<${n + index}>`),
      );
      for (const respond of responses.reverse()) respond();
    }
    const bodies = () => socket.text().match(/<\d+>/g) ?? [];
    await until(() => bodies().length === count);
    expect(bodies()).toEqual(Array.from({ length: count }, (_, n) => `<${n}>`));
    expect(closed).toEqual([]);
  });

  it('close the connection when too many follow the first', async () => {
    await serve();
    const socket = await open(POST.repeat(MAX_PIPELINED_BYTES.onOne / (6 * KIB) + 1));
    await socket.gone;
    expect(started.length).toBeLessThanOrEqual(MAX_ACTIVE);
    expect(closed).toEqual(['pipelined']);
    expect(connections.size).toBe(0);
  });

  it('close the connection when they hold too much memory, in fewer requests if those have large headers', async () => {
    await serve();
    const socket = await open(LONG_POST.repeat(MAX_PIPELINED_BYTES.onOne / (18 * KIB) + 1));
    await socket.gone;
    expect(closed).toEqual(['pipelined']);
    expect(connections.pipelinedBytes).toBe(0);
  });

  it('close the connection when all connections hold too much, until other clients disconnect', async () => {
    await serve();
    const others = [await open(LONG_POST.repeat(2))];
    await until(() => connections.pipelinedBytes > 0);
    const ofOne = connections.pipelinedBytes;
    const fitting = Math.floor(MAX_PIPELINED_BYTES.onOne / ofOne);
    const full = Math.floor((MAX_PIPELINED_BYTES.onAll - ofOne) / (fitting * ofOne));
    for (let n = 0; n < full; n++) others.push(await open(LONG_POST.repeat(1 + fitting)));
    await until(() => connections.pipelinedBytes === (1 + full * fitting) * ofOne);
    expect(closed).toEqual([]);
    const beyond = await open(LONG_POST.repeat(MAX_ACTIVE));
    await beyond.gone;
    expect(closed).toEqual(['pipelined']);
    for (const other of others) other.destroy();
    await until(() => connections.pipelinedBytes === 0 && connections.size === 0);
    await open(POST.repeat(MAX_ACTIVE + 1));
    await until(() => connections.pipelinedBytes > 0);
  });

  it('do not count the first of each connection, so that every connection can wait for a response', async () => {
    await serve({ connectionsLimit: 3_000 });
    const first = await open(LONG_POST);
    await until(() => started.length === 1);
    expect(connections.pipelinedBytes).toBe(0);
    first.write(LONG_POST);
    await until(() => connections.pipelinedBytes > 12 * KIB);
    for (const { response } of started) response.end();
    await until(() => connections.pipelinedBytes === 0);
    expect(closed).toEqual([]);
  });

  it('keep their own trace context when the end of another request starts them', async () => {
    await serve();
    const socket = await open(GET.repeat(2));
    await until(() => started.length === 1);
    storage.run('trace of another request', () => started[0]!.response.end());
    await until(() => started.length === 2);
    expect(started[1]!.stored).toBeUndefined();
    socket.destroy();
  });

  it('of several connections take turns, and leave room for other requests in every turn of the event loop', async () => {
    let [posts, gets, postsBeforeLastGet] = [0, 0, 0];
    await serve({
      route: ({ method }, response) => {
        if (method === 'POST') posts += 1;
        else {
          gets += 1;
          postsBeforeLastGet = posts;
        }
        response.end();
      },
    });
    const count = 40 * MAX_ACTIVE;
    const sockets = await Promise.all(
      [POST.repeat(count), POST.repeat(count), GET.repeat(20)].map((text) => open(text)),
    );
    let [before, most] = [0, 0];
    while (posts < 2 * count || gets < 20) {
      await new Promise(setImmediate);
      most = Math.max(most, posts + gets - before);
      before = posts + gets;
    }
    // Besides those, the first request of each connection.
    expect(most).toBeLessThanOrEqual(MAX_ACTIVE + sockets.length);
    expect(postsBeforeLastGet).toBeLessThan(2 * count);
  });

  it('run one at a time if they are GETs, so that one response per connection is in memory', async () => {
    await serve();
    const socket = await open(GET.repeat(3));
    for (const n of [1, 2, 3]) {
      await until(() => started.length === n);
      // All three arrived in one read, so whatever starts with it has started by now.
      await new Promise(setImmediate);
      expect(started.length).toBe(n);
      started[n - 1]!.response.end(LARGE);
    }
    await until(() => socket.bytes() > 3 * LARGE.length);
    expect(closed).toEqual([]);
  });

  it('leave nothing behind when the client disconnects before they start', async () => {
    await serve();
    const gone: number[] = [];
    const socket = await open(POST.repeat(3) + GET);
    await until(() => started.length === 3);
    for (const [n, { response }] of started.entries()) response.once('close', () => gone.push(n));
    socket.destroy();
    await until(() => gone.length === 3);
    expect(started.length).toBe(3);
    expect(connections.size).toBe(0);
  });
});

describe('a connection whose client does not read', () => {
  it('is closed after the write timeout', async () => {
    await serve({ writeTimeout: 200 });
    const socket = await open(GET, { reading: false });
    await until(() => started.length === 1);
    started[0]!.response.end(LARGE);
    await until(() => connections.size === 0);
    expect(closed).toEqual(['stalled']);
    socket.destroy();
  });

  it('is closed even if the client keeps sending after an invalid request', async () => {
    await serve({ writeTimeout: 200 });
    const socket = await open(`${GET}not HTTP\r\n\r\n`, { reading: false });
    await until(() => started.length === 1);
    started[0]!.response.end(LARGE);
    const dripping = setInterval(() => socket.write('x'), 20);
    await until(() => connections.size === 0);
    clearInterval(dripping);
    expect(closed).toEqual(['stalled']);
    socket.destroy();
  });

  it('stays open while the client reads slowly', async () => {
    await serve({ writeTimeout: 1_000 });
    const socket = await open(GET, { reading: false });
    await until(() => started.length === 1);
    started[0]!.response.end(LARGE);
    const sips = setInterval(() => socket.sip(), 5);
    await until(() => socket.bytes() > LARGE.length);
    clearInterval(sips);
    expect(closed).toEqual([]);
  });

  it('is not confused with one that waits for its response, however long that takes', async () => {
    await serve({ writeTimeout: 100 });
    const socket = await open(GET);
    let timeouts = 0;
    server.on('timeout', () => timeouts++);
    await until(() => timeouts === 1);
    started[0]!.response.end('<late>');
    await until(() => socket.text().includes('<late>'));
    expect(closed).toEqual([]);
  });

  it('is not confused with an idle keep-alive connection, which is closed after keepAliveTimeout', async () => {
    await serve({ writeTimeout: 100, keepAliveTimeout: 600 });
    const socket = await open(GET);
    await until(() => started.length === 1);
    started[0]!.response.end('<once>');
    const respondedAt = performance.now();
    await until(() => socket.text().includes('<once>'));
    await socket.gone;
    expect(performance.now() - respondedAt).toBeGreaterThan(500);
    expect(closed).toEqual([]);
  });
});

describe('connections', () => {
  it('are rejected over the limit, and accepted again when others have closed', async () => {
    await serve({ connectionsLimit: 2 });
    const [first] = [await open(''), await open('')];
    await until(() => connections.size === 2);
    const rejected = await open('');
    await rejected.gone;
    expect(closed).toEqual(['limit']);
    first.destroy();
    await until(() => connections.size === 1);
    const next = await open(GET);
    await until(() => started.length === 1);
    next.destroy();
  });
});

describe('invalid input after complete requests', () => {
  it('gets its error response after the responses to those requests', async () => {
    await serve();
    const socket = await open(`${POST.repeat(2)}not HTTP\r\n\r\n`);
    await until(() => started.length === 2);
    for (const { response } of started.reverse()) response.end('<stored>');
    await socket.gone;
    expect(socket.text().match(/<\w+>/g)).toEqual(['<stored>', '<stored>', '<broken>']);
  });
});

async function serve(
  options: {
    connectionsLimit?: number;
    writeTimeout?: number;
    keepAliveTimeout?: number;
    route?: (request: IncomingMessage, response: ServerResponse) => void;
  } = {},
): Promise<void> {
  const { connectionsLimit = 100, writeTimeout = 30_000, keepAliveTimeout = 30_000 } = options;
  const { route = keepStarted } = options;
  closed = [];
  started = [];
  server = createServer({ keepAliveTimeout });
  connections = new Connections({ connectionsLimit, writeTimeout }, (reason) => closed.push(reason));
  connections.attach(server, route);
  server.on('clientError', (_error, socket) =>
    connections.closeAfterResponses(socket as Socket, () => {
      socket.write('<broken>');
      (socket as Socket).destroySoon();
    }),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
}

function keepStarted(request: IncomingMessage, response: ServerResponse): void {
  started.push({ request, response, stored: storage.getStore() });
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
  const gone = new Promise((resolve) => socket.on('close', resolve));
  await once(socket, 'connect');
  socket.write(bytes);
  return {
    gone,
    text: () => Buffer.concat(chunks).toString('latin1'),
    bytes: () => size,
    write: (more: string) => socket.write(more),
    destroy: () => socket.destroy(),
    /** Reads a part of what has arrived. */
    sip: () => {
      const chunk = socket.read() as Buffer | null;
      if (chunk) keep(chunk);
    },
  };
}
