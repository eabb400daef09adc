import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { certificate } from '../../test/support/certificate.ts';
import { hasNatsServer, type NatsServer, startNatsServer } from '../../test/support/nats-server.ts';
import { until } from '../../test/support/until.ts';
import type { Log } from '../telemetry/logger.ts';
import { EgressGuard, type EgressRules } from '../webhooks/egress-guard.ts';
import type { BrokerCredentials, BrokerTls } from './broker-definition.ts';
import { BrokerSender } from './broker-sender.ts';

const LOOPBACK = { address: '127.0.0.0', prefix: 8, family: 'ipv4' } as const;
const LOG = { warn: () => undefined } as unknown as Log;

const senders: BrokerSender[] = [];
afterEach(async () => {
  for (const sender of senders.splice(0)) await sender.close();
});

function newSender(rules: EgressRules = { allow: [LOOPBACK] }): BrokerSender {
  const sender = new BrokerSender({ outboxLease: 60_000 }, LOG, new EgressGuard(rules));
  senders.push(sender);
  return sender;
}

interface Target {
  readonly servers: string[];
  readonly tls?: BrokerTls;
  readonly credentials?: BrokerCredentials;
  readonly number?: number;
  readonly revision?: number;
}

const targetOf = ({ number = 1, revision = 1, credentials = {}, ...more }: Target) => ({
  number,
  revision,
  name: 'sink',
  broker: { mode: 'nats', subject: 'x.{key}', credentials, ...more } as const,
});

function delivery(key = 'k') {
  const id = randomUUID();
  return {
    deliveryId: id,
    attempt: 1,
    messageId: id,
    source: 's',
    type: 't',
    key,
    sequence: 1,
    occurredAt: new Date(),
    payload: '{}',
  };
}

const OPTIONS = { timeoutMs: 10_000 };

(hasNatsServer('the connections of sinks') ? describe : describe.skip)('a connection to NATS', () => {
  let nats: NatsServer;
  beforeAll(async () => {
    nats = await startNatsServer();
    await nats.addStream('X', ['x.>']);
  });
  afterAll(() => nats.stop());

  it('is made only to addresses that the egress guard allows, whatever the name says', async () => {
    const here = [{ address: '127.0.0.1', family: 4 }];
    const guarded = newSender({ resolve: async () => here });
    for (const host of ['127.0.0.1', 'public.example']) {
      const servers = [`nats://${host}:${nats.port}`];
      const result = await guarded.send(delivery(), targetOf({ servers, number: host.length }), OPTIONS);
      expect(result).toMatchObject({
        kind: 'failed',
        reason: 'egress',
        detail: expect.stringContaining(host),
      });
    }
    const allowed = newSender({ allow: [LOOPBACK], resolve: async () => here });
    const servers = [`nats://public.example:${nats.port}`];
    expect(await allowed.send(delivery(), targetOf({ servers }), OPTIONS)).toMatchObject({
      kind: 'acknowledged',
    });
  });

  it('goes to the next server when the first one is away', async () => {
    const target = targetOf({ servers: ['nats://127.0.0.1:4', nats.url] });
    expect(await newSender().send(delivery(), target, OPTIONS)).toMatchObject({ kind: 'acknowledged' });
  });

  it('is one for all deliveries of a listener, and a new one after a change', async () => {
    const sender = newSender();
    const connections = async () =>
      (await nats.connections()).filter((name) => name === 'sluice sink').length;
    const send = (revision: number) =>
      sender.send(delivery(), targetOf({ servers: [nats.url], revision }), OPTIONS);
    await Promise.all(Array.from({ length: 20 }, () => send(1)));
    expect(await connections()).toBe(1);
    await send(2);
    await until(async () => (await connections()) === 1);
    sender.retain(new Set());
    await until(async () => (await connections()) === 0);
  });

  it('ends when the sender stops, and what waits fails as local', async () => {
    const sender = newSender();
    const stop = new AbortController();
    const silent = await startServer(() => undefined);
    const waiting = sender.send(delivery(), targetOf({ servers: [silent.url] }), {
      ...OPTIONS,
      signal: stop.signal,
    });
    stop.abort();
    expect(await waiting).toMatchObject({
      kind: 'failed',
      reason: 'local',
      detail: 'this replica is stopping',
    });
    await silent.close();
  });

  it('with TLS trusts the given authority only, and the name that it is given', async () => {
    const cert = certificate({ names: ['broker.example'] });
    const tls = await startNatsServer(`tls { cert_file: "CERT", key_file: "KEY" }`, {}, cert);
    const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
    const send = (host: string, given?: BrokerTls) =>
      newSender({ allow: [LOOPBACK], resolve }).send(
        delivery(),
        targetOf({ servers: [`tls://${host}:${tls.port}`], ...(given ? { tls: given } : {}) }),
        OPTIONS,
      );
    await tls.addStream('X', ['x.>']);
    expect(await send('broker.example', { ca: cert.cert })).toMatchObject({ kind: 'acknowledged' });
    expect(await send('127.0.0.1', { ca: cert.cert, serverName: 'broker.example' })).toMatchObject({
      kind: 'acknowledged',
    });
    expect(await send('other.example', { ca: cert.cert })).toMatchObject({ reason: 'tls' });
    expect(await send('broker.example')).toMatchObject({
      reason: 'tls',
      detail: 'DEPTH_ZERO_SELF_SIGNED_CERT',
    });
    await tls.stop();
  });
});

describe('a server that is not what it should be', () => {
  it('cannot lead the service to other addresses', async () => {
    const trap = await startServer(() => undefined);
    const info = { server_id: 'x', version: '2.9.0', proto: 1, max_payload: 1_048_576, headers: true };
    const urls = { connect_urls: [`127.0.0.1:${trap.port}`] };
    const advertising = await startServer((socket) => {
      socket.write(`INFO ${JSON.stringify({ ...info, ...urls })}\r\n`);
      socket.on('data', (chunk) => {
        if (chunk.includes('PING')) socket.write('PONG\r\n');
        if (chunk.includes('PUB')) socket.destroy();
      });
    });
    const sender = newSender();
    for (let n = 0; n < 3; n++) {
      const result = await sender.send(delivery(), targetOf({ servers: [advertising.url] }), OPTIONS);
      expect(result).toMatchObject({ kind: 'failed', reason: 'reset' });
    }
    expect([advertising.connections, trap.connections]).toEqual([3, 0]);
    await Promise.all([advertising.close(), trap.close()]);
  });

  it.each([
    ['speaks another protocol', 'HTTP/1.1 400 Bad Request\r\n\r\n', /^(protocol|reset)$/],
    ['says nothing', '', /^timeout$/],
  ])('%s: a clear failure in time', async (_what, hello, reason) => {
    const server = await startServer((socket) => void (hello && socket.end(hello)));
    const result = await newSender().send(delivery(), targetOf({ servers: [server.url] }), {
      timeoutMs: 300,
    });
    expect(result).toMatchObject({ kind: 'failed', reason: expect.stringMatching(reason) });
    await server.close();
  });
});

interface FakeServer {
  readonly url: string;
  readonly port: number;
  readonly connections: number;
  close(): Promise<void>;
}

async function startServer(onConnection: (socket: Socket) => void): Promise<FakeServer> {
  const sockets = new Set<Socket>();
  let connections = 0;
  const server: Server = createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on('error', () => undefined);
    onConnection(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `nats://127.0.0.1:${port}`,
    port,
    get connections() {
      return connections;
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
