import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { certificate } from '../../../test/support/certificate.ts';
import { KafkaPeer, type KafkaPeerOptions } from '../../../test/support/kafka-peer.ts';
import { until } from '../../../test/support/until.ts';
import type { Log } from '../../telemetry/logger.ts';
import { EgressGuard, type EgressRules } from '../../webhooks/egress-guard.ts';
import { BrokerSender } from '../broker-sender.ts';

const LOOPBACK = { address: '127.0.0.0', prefix: 8, family: 'ipv4' } as const;
const LOG = { warn: () => undefined } as unknown as Log;
const HERE = async () => [{ address: '127.0.0.1', family: 4 }];
/** The first one loads the client, which takes seconds on a busy machine. */
const OPTIONS = { timeoutMs: 60_000 };

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function startPeer(options: KafkaPeerOptions = {}): Promise<KafkaPeer> {
  const peer = await new KafkaPeer(options).start();
  ends.push(() => peer.stop());
  return peer;
}

function senderTo(servers: string[], more: Record<string, unknown> = {}, rules?: EgressRules) {
  const guard = new EgressGuard(rules ?? { allow: [LOOPBACK] });
  const sender = new BrokerSender({ outboxLease: 60_000 }, LOG, guard);
  ends.push(() => sender.close());
  const broker = { mode: 'kafka', topic: 'orders', credentials: {}, ...more, servers } as const;
  const target = { number: 1, revision: 1, name: 'a sink', broker };
  return (key = 'k', options = OPTIONS) => sender.send(delivery(key), target, options);
}

function delivery(key: string) {
  const id = randomUUID();
  return {
    ...{ deliveryId: id, attempt: 1, messageId: id, source: 's', type: 't', key, sequence: 1 },
    ...{ occurredAt: new Date(), payload: '{}' },
  };
}

describe('a connection to Kafka', () => {
  it('is replaced before the next delivery if it ended meanwhile, without a failure', async () => {
    const peer = await startPeer();
    const send = senderTo(peer.servers);
    expect(await send()).toMatchObject({ kind: 'acknowledged' });
    // It ends after that of the sender.
    const witness = connect(peer.port, '127.0.0.1');
    await until(() => peer.connections === 2);
    const ended = once(witness.resume(), 'close');
    await peer.stopNode(0);
    await ended;
    await peer.startNode(0);
    expect(await send()).toMatchObject({ kind: 'acknowledged' });
  });

  it('is one to each broker, for all deliveries, and ends with the sender', async () => {
    const peer = await startPeer({ nodes: 2, partitions: 8 });
    const send = senderTo(peer.servers);
    await Promise.all(Array.from({ length: 100 }, (_, n) => send(`k-${n}`)));
    expect(peer.connections).toBe(2);
    expect(peer.all()).toHaveLength(100);
    await ends.pop()!();
    await until(() => peer.connections === 0);
  });

  it('carries messages that wait together in few requests', async () => {
    const peer = await startPeer();
    const send = senderTo(peer.servers);
    await send();
    await Promise.all(Array.from({ length: 400 }, (_, n) => send(`k-${n}`)));
    expect(peer.all()).toHaveLength(401);
    expect(peer.produces).toBeLessThan(10);
  });

  it('is made only to addresses that the egress guard allows, whatever the name says', async () => {
    const peer = await startPeer();
    const server = `kafka://public.example:${peer.port}`;
    expect(await senderTo([server], {}, { resolve: HERE })()).toMatchObject({
      reason: 'egress',
      detail: 'public.example points to an address that is not public (loopback)',
    });
    expect(await senderTo([server], {}, { resolve: HERE, allow: [LOOPBACK] })()).toMatchObject({
      kind: 'acknowledged',
    });
  });

  it('with TLS trusts the given authority only, and the name in the certificate', async () => {
    const cert = certificate({ names: ['broker.example'] });
    const peer = await startPeer({ certificate: cert, advertisedHost: 'broker.example' });
    const send = (host: string, tls?: Record<string, string>) =>
      senderTo([`kafka+ssl://${host}:${peer.port}`], tls ? { tls } : {}, {
        resolve: HERE,
        allow: [LOOPBACK],
      })();
    expect(await send('broker.example', { ca: cert.cert })).toMatchObject({ kind: 'acknowledged' });
    expect(await send('127.0.0.1', { ca: cert.cert, serverName: 'broker.example' })).toMatchObject({
      kind: 'acknowledged',
    });
    expect(await send('other.example', { ca: cert.cert })).toMatchObject({ reason: 'tls' });
    expect(await send('broker.example')).toMatchObject({ reason: 'tls' });
  });

  it.each([
    ['an error that nobody knows', { failWith: 999 }, /^protocol$/],
    ['a leader that is nowhere', { leaderOf: () => 7 }, /^reset$/],
    ['a topic without partitions', { partitions: 0 }, /^reset$/],
  ])('reports %s, and goes on when it is over', async (_what, spoilt, reason) => {
    const peer = await startPeer();
    const { leaderOf, partitions } = peer;
    const send = senderTo(peer.servers);
    Object.assign(peer, spoilt);
    expect(await send()).toMatchObject({ kind: 'failed', reason: expect.stringMatching(reason) });
    Object.assign(peer, { failWith: undefined, leaderOf, partitions });
    expect(await send()).toMatchObject({ kind: 'acknowledged' });
  });

  it.each(['', 'nonsense', 'r=x', 'e=other-error'])(
    'survives a server that replies %j to its login',
    async (reply) => {
      const login = { mechanism: 'SCRAM-SHA-512', username: 'a', password: 'b', reply };
      const peer = await startPeer({ login });
      const send = senderTo(peer.servers, { credentials: { username: 'a', password: 'b' } });
      expect(await send()).toMatchObject({ kind: 'failed', reason: 'auth' });
    },
  );

  it.each([
    ['speaks another protocol', 'HTTP/1.1 400 Bad Request\r\n\r\n', /^(protocol|reset|timeout)$/],
    ['says nothing', '', /^timeout$/],
  ])('to a server that %s is a clear failure in time', async (_what, hello, reason) => {
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      if (hello) socket.on('data', () => socket.end(hello));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    ends.unshift(async () => void server.close());
    const { port } = server.address() as AddressInfo;
    const result = await senderTo([`kafka://127.0.0.1:${port}`])('k', { timeoutMs: 500 });
    expect(result).toMatchObject({ kind: 'failed', reason: expect.stringMatching(reason) });
  });
});
