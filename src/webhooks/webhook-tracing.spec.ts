import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { UndiciInstrumentation } from '@opentelemetry/instrumentation-undici';
import { NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { EgressGuard } from './egress-guard.ts';
import { WebhookSender } from './webhook-sender.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = `00-${TRACE}-b7ad6b7169203331-01`;

describe('the trace of a webhook', () => {
  const received: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    received.push(request);
    response.end();
  });
  const allow = [{ address: '127.0.0.0', prefix: 8, family: 'ipv4' }] as const;
  const sender = new WebhookSender(new EgressGuard({ allow }));

  beforeAll(async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterAll(async () => {
    await sender.close();
    server.close();
    await once(server, 'close');
  });

  it('is that of its message, unchanged, without tracing', async () => {
    expect(await traceparentsOf(PARENT)).toEqual([PARENT]);
  });

  it('is derived from the delivery, not sampled, when the message has none, without tracing', async () => {
    const made = '00-3d0ca31588284ce59f5b7e3c0a1d2e4f-9f5b7e3c0a1d2e4f-00';
    expect(await traceparentsOf(undefined)).toEqual([made]);
    expect(await traceparentsOf(undefined)).toEqual([made]);
  });

  it('continues with a span of the service with tracing, and is exported once', async () => {
    const provider = new NodeTracerProvider();
    provider.register({ propagator: new W3CTraceContextPropagator() });
    const instrumentation = new UndiciInstrumentation();
    try {
      const [first, ...more] = await traceparentsOf(PARENT);
      expect(first).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`));
      expect(first).not.toBe(PARENT);
      expect(more).toEqual([]);
      expect(await traceparentsOf(undefined)).toEqual([expect.stringMatching(/-01$/)]);
    } finally {
      instrumentation.disable();
      await provider.shutdown();
    }
  });

  async function traceparentsOf(traceparent: string | undefined): Promise<string[]> {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const deliveryId = '3d0ca315-8828-4ce5-9f5b-7e3c0a1d2e4f';
    const request = { listener: 1, connections: 1, url, headers: [], body: '{}', deliveryId, traceparent };
    expect(await sender.send(request, { timeoutMs: 10_000 })).toMatchObject({ status: 200 });
    return received.pop()!.headersDistinct.traceparent ?? [];
  }
});
