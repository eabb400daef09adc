import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { outcomeOf } from '../outbox/send/outcome.ts';
import { failureOf } from './call-failures.ts';
import type { CallResult } from './call-result.ts';
import { EgressGuard } from './egress-guard.ts';
import { WebhookSender } from './webhook-sender.ts';

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';
/** Long enough that no response in progress reaches it. */
const LONG_MS = 20_000;
const SHORT_MS = 200;
const BODY = JSON.stringify('x'.repeat(4_000));
const TERMS = { retryScheduleMs: [1_000, 1_000], terminalStatuses: [] };

let sender: WebhookSender;
let closing: (() => Promise<unknown>)[];

beforeEach(() => {
  closing = [];
  const allow = [{ address: '127.0.0.0', prefix: 8, family: 'ipv4' }] as const;
  const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
  sender = new WebhookSender(new EgressGuard({ allow, resolve }));
});
afterEach(async () => {
  await sender.close();
  await Promise.all(closing.map((close) => close()));
});

type Behaviour = (socket: Socket) => unknown;

/** Runs `behave` once per connection: when its first bytes arrive, or at once. Returns the URL. */
async function receive(
  behave: Behaviour,
  when: 'first-bytes' | 'connected' = 'first-bytes',
): Promise<string> {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('error', () => undefined).on('close', () => open.delete(socket));
    if (when === 'connected') behave(socket);
    else socket.once('data', () => behave(socket));
    socket.resume();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(async () => {
    for (const socket of open) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function send(url: string, timeoutMs: number, listener = 1): Promise<CallResult> {
  const request = {
    listener,
    connections: 1,
    url: `${url}/`,
    headers: ['content-type', 'application/json'],
    body: BODY,
    deliveryId: '3d0ca315-8828-4ce5-9f5b-7e3c0a1d2e4f',
    traceparent: undefined,
  };
  return sender.send(request, { timeoutMs });
}

function isChargedOrDelivered(result: CallResult): boolean {
  const outcome = outcomeOf(result, TERMS, { attempt: 1, ageMs: 0 });
  return (
    outcome.kind === 'delivered' || outcome.kind === 'dead' || (outcome.kind === 'retry' && outcome.counted)
  );
}

const write = (bytes: string | Buffer): Behaviour => {
  return (socket) => socket.write(bytes);
};
const end = (bytes: string | Buffer): Behaviour => {
  return (socket) => socket.end(bytes);
};
const reset = (bytes: string): Behaviour => {
  return (socket) => socket.write(bytes, () => socket.resetAndDestroy());
};
const flood = (text: string, first = ''): Behaviour => {
  return (socket) => {
    socket.write(first);
    const more = () => {
      while (!socket.destroyed && socket.write(text.repeat(200)));
      socket.once('drain', more);
    };
    more();
  };
};

describe('a response that is not HTTP', () => {
  it.each<[what: string, behave: Behaviour]>([
    ['status 0', write('HTTP/1.1 0 x\r\ncontent-length: 0\r\n\r\n')],
    ['status 000', write('HTTP/1.1 000 x\r\ncontent-length: 0\r\n\r\n')],
    ['status 099', write('HTTP/1.1 099 X\r\ncontent-length: 0\r\n\r\n')],
    ['status 099, and the connection closed', end('HTTP/1.1 099 X\r\nconnection: close\r\n\r\n')],
    ['status 099 of HTTP/1.0', end('HTTP/1.0 099 X\r\n\r\nbody')],
    ['status 1', write('HTTP/1.1 1 x\r\n\r\n')],
    ['status 1000', write('HTTP/1.1 1000 x\r\ncontent-length: 0\r\n\r\n')],
    ['status -1', write('HTTP/1.1 -1 x\r\n\r\n')],
    ['an invalid status', write('HTTP/1.1 abc x\r\n\r\n')],
    ['no status', write('HTTP/1.1\r\n\r\n')],
    ['an invalid version', write('HTTP/9.9 200 OK\r\n\r\n')],
    ['a request', write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n')],
    ['NULs', write(Buffer.alloc(4_096))],
    ['NUL in a header', write('HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n')],
    ['bytes above 127', write(Buffer.alloc(4_096, 0xfe))],
    ['half of the headers', end('HTTP/1.1 200 OK\r\ncontent-le')],
    ['half of the status line', end('HTTP/1.1 20')],
    ['reset within the headers', reset('HTTP/1.1 200 OK\r\ncontent-le')],
    ['huge headers', write(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(40_000)}\r\n\r\n`)],
    ['endless headers', flood('x: y\r\n', 'HTTP/1.1 200 OK\r\n')],
    ['two lengths', write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok')],
    ['an invalid length', write('HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\nok')],
    ['a huge length', write(`HTTP/1.1 200 OK\r\ncontent-length: ${'9'.repeat(40)}\r\n\r\nok`)],
    [
      'both kinds of length',
      write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n'),
    ],
    ['101', write('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nbytes')],
    ['a flood of 100', flood('HTTP/1.1 100 Continue\r\n\r\n')],
    ['a flood of 102', flood('HTTP/1.1 102 Processing\r\n\r\n')],
    ['a flood of 103', flood('HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n')],
    ['100, and then garbage', write('HTTP/1.1 100 Continue\r\n\r\ngarbage\r\n\r\n')],
    ['100, and then 099', write('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 099 X\r\n\r\n')],
    ['100, and then a reset', reset('HTTP/1.1 100 Continue\r\n\r\n')],
    ['100, and then the end', end('HTTP/1.1 100 Continue\r\n\r\n')],
  ])('counts as an attempt: %s', async (_what, behave) => {
    const result = await send(await receive(behave), LONG_MS);
    expect(result).toMatchObject({ kind: 'failed', reason: expect.stringMatching(/^(protocol|reset)$/) });
    expect(isChargedOrDelivered(result)).toBe(true);
  });

  it.each<[what: string, behave: Behaviour]>([
    ['100 and nothing else', write('HTTP/1.1 100 Continue\r\n\r\n')],
    ['a line that does not end', write('HTTP/1.1 2')],
    ['an endless line', flood('y', 'HTTP/1.1 200 ')],
    ['line breaks', write('\r\n\r\n\r\n')],
    ['endless line breaks', flood('\r\n')],
    ['nothing', () => undefined],
  ])('counts as an attempt at the deadline: %s', async (_what, behave) => {
    const result = await send(await receive(behave), SHORT_MS);
    expect(result).toMatchObject({ kind: 'failed', reason: 'timeout' });
    expect(isChargedOrDelivered(result)).toBe(true);
  });

  it('names the invalid status', async () => {
    const result = await send(await receive(write('HTTP/1.1 099 X\r\n\r\n')), LONG_MS);
    expect(result).toMatchObject({ reason: 'protocol', detail: 'HPE_INVALID_STATUS' });
  });

  it('does not affect the next call, which uses a new connection', async () => {
    let responded = 0;
    const url = await receive((socket) => socket.write(responded++ === 0 ? 'HTTP/1.1 099 X\r\n\r\n' : OK));
    expect(await send(url, LONG_MS)).toMatchObject({ reason: 'protocol' });
    expect(await send(url, LONG_MS)).toMatchObject({ kind: 'responded', status: 200 });
  });
});

describe('a response', () => {
  it.each<[what: string, interim: string]>([
    ['100 Continue', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['several 100 Continue', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(5)],
    ['100 Continue with headers', 'HTTP/1.1 100 Continue\r\nserver: x\r\ncontent-length: 0\r\n\r\n'],
    ['102 Processing', 'HTTP/1.1 102 Processing\r\n\r\n'],
    ['103 Early Hints', 'HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\n\r\n'],
    [
      'all of them',
      'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\nlink: </a>\r\n\r\n',
    ],
  ])('may be preceded by %s, in the same packet or not', async (_what, interim) => {
    const together = await receive(write(interim + OK));
    expect(await send(together, LONG_MS, 1)).toMatchObject({ status: 200, excerpt: 'ok' });
    const apart = await receive((socket) => {
      socket.setNoDelay(true);
      socket.write(interim.slice(0, 10), () =>
        setImmediate(() => socket.write(interim.slice(10), () => setImmediate(() => socket.write(OK)))),
      );
    });
    expect(await send(apart, LONG_MS, 2)).toMatchObject({ status: 200, excerpt: 'ok' });
  });

  it('after 100 Continue leaves its connection usable', async () => {
    let connections = 0;
    const url = await receive((socket) => {
      connections += 1;
      const result = () => socket.write(`HTTP/1.1 100 Continue\r\n\r\n${OK}`);
      // A request is complete with its last byte.
      socket.on('data', (chunk) => chunk.at(-1) === BODY.charCodeAt(BODY.length - 1) && result());
      result();
    });
    for (let n = 0; n < 5; n++)
      expect(await send(url, LONG_MS)).toMatchObject({ status: 200, excerpt: 'ok' });
    expect(connections).toBe(1);
  });

  it.each<[what: string, behave: Behaviour]>([
    ['a reset after the headers', reset('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n')],
    ['an invalid chunk', write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n')],
    [
      'a chunk of a huge size',
      write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n'),
    ],
    ['a body longer than announced', end('HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nokokok')],
    ['a body shorter than announced', end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nok')],
  ])('counts by its status, whatever happens to the rest: %s', async (_what, behave) => {
    const result = await send(await receive(behave), LONG_MS);
    expect(result).toMatchObject({ kind: 'responded', status: 200 });
  });

  it('that arrives before the request counts as a response, or as a failed attempt', async () => {
    for (const bytes of [OK, 'HTTP/1.1 099 X\r\n\r\n', 'HTTP/1.1 100 Continue\r\n\r\n']) {
      const result = await send(await receive(end(bytes), 'connected'), LONG_MS);
      expect([bytes, isChargedOrDelivered(result)]).toEqual([bytes, true]);
    }
  });
});

describe('whatever a receiver sends', () => {
  const piece = fc.oneof(
    fc.constantFrom(
      ...[
        'HTTP/1.1 ',
        'HTTP/1.0 ',
        'HTTP/1.1 200 OK\r\n',
        'HTTP/1.1 099 X\r\n',
        'HTTP/1.1 100 C\r\n\r\n',
        'HTTP/1.1 0 x\r\n',
      ],
      ...[
        'HTTP/1.1 103 E\r\n\r\n',
        'HTTP/1.1 101 S\r\n',
        'HTTP/1.1 204 N\r\n',
        'HTTP/1.1 500 E\r\n',
        '\r\n',
        '\r\n\r\n',
        '\n',
        '\0',
      ],
      ...[
        'content-length: 2\r\n',
        'content-length: 99\r\n',
        'transfer-encoding: chunked\r\n',
        'connection: close\r\n',
      ],
      ...[
        'upgrade: x\r\nconnection: upgrade\r\n',
        'keep-alive: timeout=-1\r\n',
        '5\r\nhello\r\n',
        '0\r\n\r\n',
        'ok',
        'x: y\r\n',
      ],
    ),
    fc.string({ maxLength: 8 }),
    fc.nat({ max: 1_200 }).map((status) => `HTTP/1.1 ${status} S\r\n`),
  );
  const ending = fc.constantFrom('end', 'reset', 'wait');

  it('counts as an attempt or is delivered, never a local failure, and never waited for indefinitely', async () => {
    let next = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(piece, { maxLength: 12 }),
        ending,
        fc.boolean(),
        async (pieces, how, split) => {
          const url = await receive((socket) => {
            socket.setNoDelay(true);
            for (const bytes of split ? pieces : [pieces.join('')]) socket.write(bytes);
            if (how === 'end') socket.end();
            if (how === 'reset') socket.resetAndDestroy();
          });
          const result = await send(url, 40, ++next);
          expect([result, isChargedOrDelivered(result)]).toEqual([result, true]);
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe('an unknown error', () => {
  const unknown = [
    new TypeError('x'),
    Object.assign(new Error('x'), { code: 'ERR_ASSERTION' }),
    new Error('x'),
  ];

  it('counts as an attempt once the request was written, and is local before', () => {
    for (const error of unknown) {
      expect([failureOf(error, true).reason, failureOf(error).reason]).toEqual(['protocol', 'local']);
      const several = new AggregateError([error]);
      expect([failureOf(several, true).reason, failureOf(several).reason]).toEqual(['protocol', 'local']);
    }
  });

  it('is local if its code is known to be local, written or not', () => {
    for (const code of ['ENOBUFS', 'ENETDOWN', 'UND_ERR_DESTROYED'])
      expect(failureOf(Object.assign(new Error('x'), { code }), true).reason).toBe('local');
  });
});
