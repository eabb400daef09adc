import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { type Certificate, certificate } from '../../test/support/certificate.ts';
import { until } from '../../test/support/until.ts';
import { failureOf } from './call-failures.ts';
import type { CallResult } from './call-result.ts';
import { EgressGuard } from './egress-guard.ts';
import { newSecret, type WebhookRequest, webhookRequest } from './webhook-request.ts';
import { WebhookSender } from './webhook-sender.ts';

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';
/** Long enough that no response in progress reaches it. */
const LONG = { timeoutMs: 20_000 };
const SHORT_MS = 150;
const SHORT = { timeoutMs: SHORT_MS };
/** How late a deadline may be on a busy machine; a second deadline would be later than this. */
const LATE_MS = 5_000;

let sender: WebhookSender;
let closing: (() => Promise<unknown>)[];

beforeEach(() => {
  closing = [];
  sender = newSender();
});
afterEach(async () => {
  await Promise.all(closing.map((close) => close()));
});

describe('a webhook', () => {
  it('arrives as it was built, and its response is returned', async () => {
    const receiver = await startReceiver((socket) =>
      socket.write('HTTP/1.1 202 Accepted\r\ncontent-length: 11\r\n\r\n{"ok":true}'),
    );
    const secret = newSecret();
    const request = webhookRequest(
      {
        deliveryId: 'd-1',
        attempt: 1,
        messageId: 'm-1',
        source: 's',
        type: 't',
        key: 'ключ',
        sequence: 1,
        occurredAt: new Date(0),
        payload: '{"text":"é😀"}',
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      },
      {
        number: 1,
        lanes: 16,
        url: `${receiver.url}/a%20path?x=1#fragment`,
        headers: { 'X-Tenant': 'blue', Authorization: 'Bearer b' },
        format: 'standard',
        secrets: [secret],
      },
    );
    expect(await sender.send(request, LONG)).toEqual({
      kind: 'responded',
      status: 202,
      excerpt: '{"ok":true}',
      durationMs: expect.any(Number),
    });
    const [received] = receiver.requests;
    expect(received!.line).toBe('POST /a%20path?x=1 HTTP/1.1');
    expect(received!.headers).toMatchObject({
      host: new URL(receiver.url).host,
      'content-type': 'application/json',
      'x-tenant': 'blue',
      authorization: 'Bearer b',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    });
    expect(new Webhook(secret).verify(received!.body, received!.headers)).toMatchObject({
      key: 'ключ',
      data: { text: 'é😀' },
    });
  });

  it('reuses the connection of the previous one', async () => {
    const receiver = await startReceiver((socket) => socket.write(OK));
    for (let count = 0; count < 20; count++) await sender.send(post(receiver, { connections: 1 }), LONG);
    expect([receiver.connections, receiver.requests.length]).toEqual([1, 20]);
  });

  it('never uses more than 100 connections to an endpoint, whatever its listener requests (E4)', async () => {
    const held: Socket[] = [];
    let most = 0;
    const receiver = await startReceiver((socket) => {
      held.push(socket);
      most = Math.max(most, held.length);
      if (held.length < 100 && receiver.requests.length < 150) return;
      for (const one of held.splice(0)) one.write(OK);
    });
    const results = await Promise.all(
      Array.from({ length: 150 }, () => sender.send(post(receiver, { connections: 256 }), LONG)),
    );
    expect(results.every((result) => result.kind === 'responded')).toBe(true);
    expect([most, receiver.connections]).toEqual([100, 100]);
  });

  it('shares no connection with other listeners: one that hangs delays no other', async () => {
    const receiver = await startReceiver((socket, { line }) => {
      if (line.includes('/healthy')) socket.write(OK);
    });
    const stop = new AbortController();
    const hanging = Array.from({ length: 30 }, () =>
      sender.send(post(receiver, { listener: 1, connections: 20 }), { ...LONG, signal: stop.signal }),
    );
    const healthy = await sender.send(post(receiver, { listener: 2, path: '/healthy' }), LONG);
    expect(healthy).toMatchObject({ status: 200 });
    stop.abort();
    for (const result of await Promise.all(hanging)) expect(result).toMatchObject({ reason: 'local' });
  });

  it('leaves nothing behind when its connection is closed', async () => {
    const receiver = await startReceiver((socket) =>
      socket.end('HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n'),
    );
    const { routes } = sender as unknown as { routes: ReadonlyMap<number, unknown> };
    for (const listener of [1, 2, 3]) await sender.send(post(receiver, { listener }), LONG);
    await until(() => routes.size === 0);
    expect(await sender.send(post(receiver), LONG)).toMatchObject({ status: 200 });
  });

  it('goes to the new URL of its listener at once', async () => {
    const [former, present] = [await startReceiver(respondOk), await startReceiver(respondOk)];
    await sender.send(post(former, { listener: 1 }), LONG);
    await sender.send(post(present, { listener: 1 }), LONG);
    await former.idle();
    expect([former.requests.length, present.requests.length]).toEqual([1, 1]);
  });
});

describe('the response', () => {
  it.each([301, 302, 303, 307, 308])('%i is never followed, not even to this service', async (status) => {
    const canary = await startReceiver(respondOk);
    const receiver = await startReceiver((socket) =>
      socket.write(`HTTP/1.1 ${status} Go\r\nlocation: ${canary.url}/\r\ncontent-length: 0\r\n\r\n`),
    );
    expect(await sender.send(post(receiver), LONG)).toMatchObject({ kind: 'responded', status });
    expect([canary.connections, receiver.requests.length]).toEqual([0, 1]);
  });

  it('contains the time of Retry-After', async () => {
    const receiver = await startReceiver((socket) =>
      socket.write('HTTP/1.1 429 Slow\r\nRetry-After: 120\r\nretry-after: 5\r\ncontent-length: 0\r\n\r\n'),
    );
    expect(await sender.send(post(receiver), LONG)).toMatchObject({ status: 429, retryAfterMs: 120_000 });
  });

  it.each<[string, Buffer | string, string]>([
    ['without a body is empty', '', ''],
    [
      'is read as UTF-8, whatever its charset',
      Buffer.from([0x61, 0xff, 0xc3, 0xa9, 0xed, 0xa0, 0x80]),
      'a\uFFFDé\uFFFD\uFFFD\uFFFD',
    ],
    ['has no NUL, which PostgreSQL would not store', 'a\0b\0', 'ab'],
    ['is stored up to 1 KiB', 'x'.repeat(1_025), 'x'.repeat(1_024)],
    ['is not cut within a character', `x${'é'.repeat(600)}`, `x${'é'.repeat(511)}`],
    ['of exactly 1 KiB is complete', 'é'.repeat(512), 'é'.repeat(512)],
  ])('%s', async (_what, body, excerpt) => {
    const receiver = await startReceiver((socket) => {
      socket.write(`HTTP/1.1 500 No\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`);
      socket.write(body);
    });
    expect(await sender.send(post(receiver), LONG)).toMatchObject({ status: 500, excerpt });
  });

  it('counts by its headers: 200 with an endless body is a delivery, and at most 16 KiB are read', async () => {
    const receiver = await startReceiver((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
      const more = () => {
        while (!socket.destroyed && socket.write(`400\r\n${'x'.repeat(1024)}\r\n`));
        socket.once('drain', more);
      };
      more();
    });
    const result = await sender.send(post(receiver), LONG);
    expect(result).toMatchObject({ kind: 'responded', status: 200, excerpt: 'x'.repeat(1_024) });
    await receiver.idle();
  });

  it('of 16 KiB leaves the connection usable, one byte more does not', async () => {
    const lengths = [16_384, 16_384, 16_385, 0];
    const receiver = await startReceiver((socket) => {
      const length = lengths[receiver.requests.length - 1]!;
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\n${'x'.repeat(length)}`);
    });
    const connections: number[] = [];
    for (const _ of lengths) {
      await sender.send(post(receiver, { connections: 1 }), LONG);
      connections.push(receiver.connections);
    }
    expect([connections[1], receiver.connections]).toEqual([1, 2]);
  });

  it.each([
    ['a body shorter than announced', 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort'],
    ['an invalid chunk', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n'],
    ['no length at all', 'HTTP/1.1 200 OK\r\n\r\nshort'],
    ['HTTP/1.0', 'HTTP/1.0 200 OK\r\n\r\nshort'],
  ])('with %s counts by its status', async (_what, bytes) => {
    const receiver = await startReceiver((socket) => socket.end(bytes));
    expect(await sender.send(post(receiver), LONG)).toMatchObject({ kind: 'responded', status: 200 });
  });

  it('may be preceded by a few informational ones', async () => {
    const receiver = await startReceiver((socket) =>
      socket.write(`${'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'.repeat(5)}${OK}`),
    );
    expect(await sender.send(post(receiver), LONG)).toMatchObject({ status: 200, excerpt: 'ok' });
  });

  it('that arrives twice is not taken for that of the next webhook', async () => {
    const receiver = await startReceiver((socket, { line }) => {
      const extra = 'HTTP/1.1 500 Twice\r\ncontent-length: 0\r\n\r\n';
      socket.write(line.includes('/twice') ? OK + extra : OK);
    });
    expect(await sender.send(post(receiver, { path: '/twice' }), LONG)).toMatchObject({ status: 200 });
    expect(await sender.send(post(receiver), LONG)).toMatchObject({ status: 200 });
  });
});

describe('a receiver that', () => {
  it.each<[string, Behaviour, string]>([
    ['closes the connection', (socket) => socket.end(), 'reset'],
    ['resets the connection', (socket) => socket.resetAndDestroy(), 'reset'],
    ['closes it within the headers', (socket) => socket.end('HTTP/1.1 200 OK\r\nx: y'), 'reset'],
    ['speaks another protocol', (socket) => socket.write('SSH-2.0-OpenSSH_9.6\r\n'), 'protocol'],
    ['sends nonsense', (socket) => socket.write(Buffer.alloc(4_096, 0xfe)), 'protocol'],
    ['sends a bad header', (socket) => socket.write('HTTP/1.1 200 OK\r\nx y: z\r\n\r\n'), 'protocol'],
    [
      'returns 101',
      (socket) => socket.write('HTTP/1.1 101 Switch\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
      'protocol',
    ],
    ['sends a flood of 1xx', (socket) => flood(socket, 'HTTP/1.1 103 Early Hints\r\n\r\n'), 'protocol'],
    [
      'sends huge headers',
      (socket) => socket.write(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(17_000)}\r\n\r\n`),
      'protocol',
    ],
    ['sends endless headers', (socket) => flood(socket, 'x: y\r\n', 'HTTP/1.1 200 OK\r\n'), 'protocol'],
  ])('%s is a failure', async (_what, behave, reason) => {
    const receiver = await startReceiver(behave);
    expect(await sender.send(post(receiver), LONG)).toMatchObject({ kind: 'failed', reason });
    await receiver.idle();
    expect(receiver.requests).toHaveLength(1);
  });

  it.each<[string, Behaviour]>([
    ['hangs', () => undefined],
    ['hangs within the headers', (socket) => socket.write('HTTP/1.1 200 OK\r\nx: y\r\n')],
    ['sends headers byte by byte', (socket) => drip(socket, 'HTTP/1.1 200 OK\r\n', 'x: y\r\n')],
    ['sends 1xx again and again', (socket) => drip(socket, '', 'HTTP/1.1 103 Early Hints\r\n\r\n', 50)],
  ])('%s is cut off at the deadline', async (_what, behave) => {
    const receiver = await startReceiver(behave);
    const result = await sender.send(post(receiver), SHORT);
    expect(result).toMatchObject({
      kind: 'failed',
      reason: 'timeout',
      detail: `no response within ${SHORT_MS} ms`,
    });
    expectDeadline(result);
    await receiver.idle();
  });

  it.each<[string, Behaviour]>([
    ['hangs', (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab')],
    ['drips', (socket) => drip(socket, 'HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\nab', '.')],
  ])('%s after the headers has responded; the rest is cut off at the deadline', async (_what, behave) => {
    const receiver = await startReceiver(behave);
    const result = await sender.send(post(receiver), SHORT);
    expect(result).toMatchObject({
      kind: 'responded',
      status: 200,
      excerpt: expect.stringMatching(/^ab\.*$/),
    });
    expectDeadline(result);
    await receiver.idle();
  });

  it('accepts connections and does not reply to TLS is cut off at the deadline', async () => {
    const receiver = await startReceiver(() => undefined);
    const result = await sender.send(post(receiver, { scheme: 'https' }), SHORT);
    expect(result).toMatchObject({ reason: 'timeout' });
    expectDeadline(result);
  });

  it('does not listen is `refused`', async () => {
    const receiver = await startReceiver(respondOk);
    await receiver.close();
    expect(await sender.send(post(receiver), LONG)).toMatchObject({
      reason: 'refused',
      detail: 'ECONNREFUSED',
    });
  });

  it('does not listen is `refused` for calls that wait for a connection, too', async () => {
    const receiver = await startReceiver(respondOk);
    await receiver.close();
    const results = Array.from({ length: 50 }, () => sender.send(post(receiver, { connections: 2 }), LONG));
    for (const result of await Promise.all(results)) expect(result).toMatchObject({ reason: 'refused' });
  });

  it('listens on none of its addresses is `refused`', async () => {
    const receiver = await startReceiver(respondOk);
    await receiver.close();
    const two = newSender({ addresses: ['127.0.0.1', '127.0.0.2'] });
    expect(await two.send(post(receiver, { host: 'two.example' }), LONG)).toMatchObject({
      reason: 'refused',
    });
  });

  it('failed is called by the next webhook on a new connection', async () => {
    let calls = 0;
    const receiver = await startReceiver((socket) =>
      ++calls === 1 ? socket.resetAndDestroy() : socket.write(OK),
    );
    expect(await sender.send(post(receiver), LONG)).toMatchObject({ reason: 'reset' });
    expect(await sender.send(post(receiver), LONG)).toMatchObject({ status: 200 });
  });
});

describe('TLS', () => {
  const good = certificate({ names: ['receiver.example'] });
  const trusting = () => newSender({ trust: good.cert });

  it('with a trusted certificate works, and its connection is reused', async () => {
    const receiver = await startReceiver(respondOk, good);
    const secure = trusting();
    const there = { connections: 1, scheme: 'https', host: 'receiver.example' };
    expect(await secure.send(post(receiver, there), LONG)).toMatchObject({ status: 200, excerpt: 'ok' });
    expect(await secure.send(post(receiver, there), LONG)).toMatchObject({ status: 200 });
    expect(receiver.connections).toBe(1);
  });

  it.each<[string, Certificate, string, boolean]>([
    ['a self-signed certificate', good, 'DEPTH_ZERO_SELF_SIGNED_CERT', false],
    [
      'an expired certificate',
      certificate({ names: ['receiver.example'], until: new Date(Date.now() - 86_400_000) }),
      'CERT_HAS_EXPIRED',
      true,
    ],
    [
      'a certificate of another host',
      certificate({ names: ['other.example'] }),
      'ERR_TLS_CERT_ALTNAME_INVALID',
      true,
    ],
  ])('with %s is refused before anything is sent', async (_what, shown, detail, trusted) => {
    const receiver = await startReceiver(respondOk, shown);
    const secure = trusted ? newSender({ trust: shown.cert }) : sender;
    const result = await secure.send(post(receiver, { scheme: 'https', host: 'receiver.example' }), LONG);
    expect(result).toMatchObject({ kind: 'failed', reason: 'tls', detail });
    await receiver.idle();
    expect(receiver.requests).toEqual([]);
  });

  it('with a receiver that speaks plain HTTP is refused', async () => {
    const receiver = await startReceiver(
      (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'),
      undefined,
      {
        atOnce: true,
      },
    );
    expect(await sender.send(post(receiver, { scheme: 'https' }), LONG)).toMatchObject({ reason: 'tls' });
  });

  it.each<[string, (socket: Socket) => unknown]>([
    ['closes', (socket) => socket.end()],
    ['resets', (socket) => socket.resetAndDestroy()],
  ])('with a receiver that %s the connection instead is a failure', async (_what, behave) => {
    const receiver = await startReceiver((socket) => socket.once('data', () => behave(socket)), undefined, {
      atOnce: true,
    });
    expect(await sender.send(post(receiver, { scheme: 'https' }), LONG)).toMatchObject({ reason: 'reset' });
  });

  it('to a receiver whose certificate names only an address works by address', async () => {
    const byAddress = certificate({ addresses: [[127, 0, 0, 1]] });
    const receiver = await startReceiver(respondOk, byAddress);
    const secure = newSender({ trust: byAddress.cert });
    expect(await secure.send(post(receiver, { scheme: 'https' }), LONG)).toMatchObject({ status: 200 });
  });
});

describe('a deadline', () => {
  it('that passes before there is a connection is kept, and nothing is sent later', async () => {
    const receiver = await startReceiver(respondOk);
    const lookup = signal<LookupAddress[]>();
    const slow = newSender({ resolve: () => lookup.promise });
    const patient = slow.send(post(receiver, { host: 'slow.example' }), LONG);
    const result = await slow.send(post(receiver, { host: 'slow.example' }), SHORT);
    expect(result).toMatchObject({ reason: 'timeout' });
    expectDeadline(result);
    lookup.resolve([{ address: '127.0.0.1', family: 4 }]);
    expect(await patient).toMatchObject({ status: 200 });
    await slow.close();
    await receiver.idle();
    expect(receiver.requests).toHaveLength(1);
  });

  it('also applies to the connection: no connection attempt outlives its call', async () => {
    const receiver = await startReceiver(respondOk);
    const lookup = signal<LookupAddress[]>();
    const slow = newSender({ resolve: () => lookup.promise });
    const late = [1, 2].map(() => slow.send(post(receiver, { host: 'slow.example', connections: 1 }), SHORT));
    for (const result of await Promise.all(late)) expect(result).toMatchObject({ reason: 'timeout' });
    lookup.resolve([{ address: '127.0.0.1', family: 4 }]);
    const next = await slow.send(post(receiver, { host: 'slow.example', connections: 1 }), LONG);
    expect(next).toMatchObject({ status: 200 });
    expect(receiver.requests).toHaveLength(1);
  });

  it('that was extended also applies to the next connection while others are in use', async () => {
    const receiver = await startReceiver((socket) => {
      if (receiver.requests.length > 1) socket.write(OK);
    });
    const silent = await startReceiver(() => undefined);
    const lookup = signal<LookupAddress[]>();
    const here: LookupAddress[] = [{ address: '127.0.0.1', family: 4 }];
    let lookups = 0;
    const slow = newSender({ resolve: () => (lookups++ === 0 ? Promise.resolve(here) : lookup.promise) });
    const hanging = slow.send(post(receiver, { host: 'slow.example' }), SHORT);
    await until(() => receiver.requests.length === 1);
    const late = slow.send(post(receiver, { host: 'slow.example' }), LONG);
    expect(await hanging).toMatchObject({ reason: 'timeout' });
    // Longer than the deadline of the first call.
    await sender.send(post(silent), { timeoutMs: 2 * SHORT_MS });
    lookup.resolve(here);
    expect(await late).toMatchObject({ status: 200 });
  });

  it('does not fail a response that arrived while the event loop was blocked', async () => {
    const receiver = await startReceiver((socket) => {
      socket.write(OK);
      const until = performance.now() + 2 * SHORT_MS;
      while (performance.now() < until);
    });
    expect(await sender.send(post(receiver), SHORT)).toMatchObject({ kind: 'responded', status: 200 });
  });
});

describe('a local failure', () => {
  it('is a call that was stopped; a call that is already stopped is not made', async () => {
    const received = signal<void>();
    const receiver = await startReceiver(() => received.resolve());
    const stop = new AbortController();
    const results = [1, 2].map(() => sender.send(post(receiver), { ...LONG, signal: stop.signal }));
    await received.promise;
    stop.abort();
    results.push(sender.send(post(receiver), { ...LONG, signal: stop.signal }));
    for (const result of await Promise.all(results)) {
      expect(result).toMatchObject({ kind: 'failed', reason: 'local', detail: 'this replica is stopping' });
    }
    expect(receiver.connections).toBeLessThanOrEqual(2);
  });

  it('is a call that a closed sender ends or does not make', async () => {
    const received = signal<void>();
    const receiver = await startReceiver(() => received.resolve());
    const result = sender.send(post(receiver), LONG);
    await received.promise;
    await sender.close();
    expect(await result).toMatchObject({ reason: 'local' });
    expect(await sender.send(post(receiver), LONG)).toMatchObject({ reason: 'local' });
    await receiver.idle();
    expect(receiver.connections).toBe(1);
  });

  it('is an unavailable resolver; a name that does not exist is not', async () => {
    for (const [code, reason] of [
      ['EAI_AGAIN', 'local'],
      ['ENOTFOUND', 'dns'],
    ]) {
      const away = newSender({ resolve: () => Promise.reject(Object.assign(new Error(), { code })) });
      const receiver = await startReceiver(respondOk);
      expect(await away.send(post(receiver, { host: 'x.example' }), LONG)).toMatchObject({
        reason,
        detail: code,
      });
    }
  });

  it.each([
    ['EMFILE', 'local'],
    ['ENFILE', 'local'],
    ['ENOMEM', 'local'],
    ['ENOBUFS', 'local'],
    ['EADDRNOTAVAIL', 'local'],
    ['ENETUNREACH', 'local'],
    ['ENETDOWN', 'local'],
    ['EPERM', 'local'],
    ['ESERVFAIL', 'local'],
    ['EHOSTUNREACH', 'refused'],
    ['ETIMEDOUT', 'timeout'],
    ['UND_ERR_CONNECT_TIMEOUT', 'timeout'],
    ['EPIPE', 'reset'],
    ['ENODATA', 'dns'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'tls'],
    ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', 'tls'],
    ['ERR_OSSL_X509_KEY_VALUES_MISMATCH', 'tls'],
    ['UNSPECIFIED', 'tls'],
    ['HPE_INVALID_CONSTANT', 'protocol'],
    ['UND_ERR_HEADERS_OVERFLOW', 'protocol'],
    ['SOMETHING_NEW', 'local'],
  ])('is distinguished by its code: %s is %s', (code, reason) => {
    expect(failureOf(Object.assign(new Error('with 10.0.0.1 in it'), { code }))).toEqual({
      reason,
      detail: code,
    });
  });

  it('is not one unreachable address among several, unless all are unreachable', () => {
    const error = (code: string) => Object.assign(new Error(), { code });
    const all = (...codes: string[]) => failureOf(new AggregateError(codes.map(error)));
    expect(all('ENETUNREACH', 'ECONNREFUSED').reason).toBe('refused');
    expect(all('ECONNREFUSED', 'ENETUNREACH').reason).toBe('refused');
    expect(all('ENETUNREACH', 'ENETUNREACH').reason).toBe('local');
  });
});

interface Received {
  readonly line: string;
  readonly headers: Record<string, string>;
  readonly body: string;
}

type Behaviour = (socket: Socket, request: Received) => unknown;

interface Receiver {
  readonly url: string;
  readonly connections: number;
  readonly requests: readonly Received[];
  /** Resolves when all connections are closed; there must have been one. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

function signal<T>(): { promise: Promise<T>; resolve(value: T): void } {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

function respondOk(socket: Socket): void {
  socket.write(OK);
}

/** A TCP (or TLS) server that runs `behave` for each complete request. */
async function startReceiver(
  behave: Behaviour,
  tls?: Certificate,
  { atOnce = false } = {},
): Promise<Receiver> {
  const requests: Received[] = [];
  const open = new Set<Socket>();
  let connections = 0;
  const serve = (socket: Socket) => {
    if (atOnce) behave(socket, { line: '', headers: {}, body: '' });
    onRequests(socket, (request) => {
      requests.push(request);
      behave(socket, request);
    });
  };
  const server: Server = tls ? createTlsServer({ ...tls }, serve) : createServer(serve);
  server.on('tlsClientError', () => undefined);
  server.on('connection', (socket: Socket) => {
    connections += 1;
    open.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => undefined);
    socket.on('close', () => open.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = async () => {
    if (!server.listening) return;
    for (const socket of open) socket.destroy();
    server.close();
    await once(server, 'close');
  };
  closing.push(close);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get connections() {
      return connections;
    },
    requests,
    idle: async () => {
      if (connections === 0) await once(server, 'connection');
      await Promise.all([...open].map((socket) => new Promise((resolve) => socket.once('close', resolve))));
    },
    close,
  };
}

function onRequests(socket: Socket, onRequest: (request: Received) => void): void {
  let bytes = Buffer.alloc(0);
  socket.on('error', () => undefined);
  socket.on('data', (chunk) => {
    bytes = Buffer.concat([bytes, chunk]);
    for (;;) {
      const end = bytes.indexOf('\r\n\r\n');
      if (end < 0) return;
      const [line = '', ...fields] = bytes.toString('latin1', 0, end).split('\r\n');
      const headers = Object.fromEntries(
        fields.map((field) => field.split(/: (.*)/s, 2) as [string, string]),
      );
      const lower = Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
      );
      const whole = end + 4 + Number(lower['content-length']);
      if (bytes.length < whole) return;
      const body = bytes.toString('utf8', end + 4, whole);
      bytes = bytes.subarray(whole);
      onRequest({ line, headers: lower, body });
    }
  });
}

function flood(socket: Socket, text: string, first = ''): void {
  socket.write(first);
  const more = () => {
    while (!socket.destroyed && socket.write(text.repeat(200)));
    socket.once('drain', more);
  };
  more();
}

/** Sends a few bytes every few milliseconds as long as the socket is open. */
function drip(socket: Socket, first: string, text: string, everyMs = 10): void {
  socket.write(first);
  const timer = setInterval(() => socket.write(text), everyMs);
  socket.on('close', () => clearInterval(timer));
}

interface SenderSetup {
  readonly addresses?: readonly string[];
  readonly resolve?: (host: string) => Promise<LookupAddress[]>;
  readonly trust?: string;
}

/** Every name resolves to this machine, which is allowed. */
function newSender({ addresses = ['127.0.0.1'], resolve, trust }: SenderSetup = {}): WebhookSender {
  const here = async () => addresses.map((address) => ({ address, family: 4 }));
  const allow = [{ address: '127.0.0.0', prefix: 8, family: 'ipv4' }] as const;
  const created = new WebhookSender(new EgressGuard({ allow, resolve: resolve ?? here }), trust);
  closing.push(() => created.close());
  return created;
}

function post(
  { url }: Receiver,
  { listener = 1, connections = 100, path = '/', scheme = 'http', host = '127.0.0.1' } = {},
): WebhookRequest {
  const { port } = new URL(url);
  return {
    listener,
    connections,
    url: `${scheme}://${host}:${port}${path}`,
    headers: ['content-type', 'application/json'],
    body: '{}',
    deliveryId: '3d0ca315-8828-4ce5-9f5b-7e3c0a1d2e4f',
    traceparent: undefined,
  };
}

function expectDeadline({ durationMs }: CallResult): void {
  expect(durationMs).toBeGreaterThanOrEqual(SHORT_MS - 2);
  expect(durationMs).toBeLessThan(SHORT_MS + LATE_MS);
}
