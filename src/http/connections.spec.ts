import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { until } from '../../test/support/until.ts';
import { type ClosedFor, Connections, MAX_IN_WORK, MAX_WAITING } from './connections.ts';

/** More than the buffers of the two sockets between us hold. */
const LARGE = Buffer.alloc(16 * 1024 * 1024);
const GET = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n';
const POST = 'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n';

let server: Server;
let connections: Connections;
let closed: ClosedFor[];
/** Requests that were begun and wait for `answer`. */
let begun: { request: IncomingMessage; response: ServerResponse; stored: string | undefined }[];
const storage = new AsyncLocalStorage<string>();

afterEach(() => {
  server.closeAllConnections();
  server.close();
});

describe('requests that are sent without waiting for answers', () => {
  it('are all answered, in order, and so many of them are in work at a time', async () => {
    await serve();
    const count = 5 * MAX_IN_WORK;
    const socket = await open(POST.repeat(count));
    for (let n = 0; n < count; n += MAX_IN_WORK) {
      await until(() => begun.length === n + MAX_IN_WORK);
      // All of them came in one read: whatever is begun with these has been by now.
      await new Promise(setImmediate);
      expect(begun.length).toBe(n + MAX_IN_WORK);
      const these = begun.slice(n).map(
        ({ response }, index) =>
          () =>
            response.end(`<${n + index}>`),
      );
      for (const answer of these.reverse()) answer();
    }
    const answers = () => socket.text().match(/<\d+>/g) ?? [];
    await until(() => answers().length === count);
    expect(answers()).toEqual(Array.from({ length: count }, (_, n) => `<${n}>`));
    expect(closed).toEqual([]);
  });

  it('end the connection when too many wait on it', async () => {
    await serve();
    const socket = await open(POST.repeat(MAX_IN_WORK + MAX_WAITING.onOne + 1));
    await socket.gone;
    expect(begun.length).toBe(MAX_IN_WORK);
    expect(closed).toEqual(['pipelined']);
    expect(connections.size).toBe(0);
  });

  it('end the connection when too many wait on all of them, and those of others make room when they go', async () => {
    await serve();
    const each = MAX_IN_WORK + MAX_WAITING.onOne;
    const full = MAX_WAITING.onAll / MAX_WAITING.onOne;
    const others = [];
    for (let n = 1; n <= full; n++) others.push(await open(POST.repeat(each)));
    await until(() => begun.length === full * MAX_IN_WORK);
    await until(() => connections.waitingRequests === MAX_WAITING.onAll);
    const beyond = await open(POST.repeat(MAX_IN_WORK + 1));
    await beyond.gone;
    expect(closed).toEqual(['pipelined']);
    for (const other of others) other.destroy();
    await until(() => connections.waitingRequests === 0 && connections.size === 0);
    await open(POST.repeat(MAX_IN_WORK + 1));
    await until(() => connections.waitingRequests === 1);
  });

  it('keep the trace they came with when another makes room for them', async () => {
    await serve();
    const socket = await open(GET.repeat(2));
    await until(() => begun.length === 1);
    storage.run('of another', () => begun[0]!.response.end());
    await until(() => begun.length === 2);
    expect(begun[1]!.stored).toBeUndefined();
    socket.destroy();
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
  connections.watch(server, (request, response) =>
    begun.push({ request, response, stored: storage.getStore() }),
  );
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
