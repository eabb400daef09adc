import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startBrokerProxy } from '../support/broker-proxy.ts';
import { hasRabbitServer, type RabbitServer, startRabbitServer } from '../support/rabbitmq-server.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

/** Nothing listens there. */
const AWAY = 'amqp://127.0.0.1:4';
const RESTART_MS = 120_000;

(hasRabbitServer('sinks: RabbitMQ') ? describe : describe.skip)('a listener with the mode rabbitmq', () => {
  const { replica } = sharedReplica({
    EGRESS_ALLOW: '127.0.0.0/8',
    SECRETS_KEYS: `test=${Buffer.alloc(32, 1).toString('base64')}`,
  });
  let rabbit: RabbitServer;

  beforeAll(async () => {
    rabbit = await startRabbitServer();
    const setup = rabbit.connection();
    await setup.exchangeDeclare({ exchange: 'orders', type: 'topic', durable: true });
    await setup.close();
  }, RESTART_MS);
  afterAll(() => rabbit.stop(), RESTART_MS);

  /** A durable queue, bound to everything that is published for a listener. */
  const queue = async (name: string, more: Record<string, unknown> = {}) => {
    const setup = rabbit.connection();
    await setup.queueDeclare({
      queue: name,
      durable: true,
      arguments: { 'x-queue-type': 'quorum', ...more },
    });
    await setup.queueBind({ queue: name, exchange: 'orders', routingKey: `${name}.#` });
    await setup.close();
  };
  const put = (name: string, target: Record<string, unknown> = {}, more: Record<string, unknown> = {}) =>
    replica.call('PUT', `/v1/listeners/${name}`, {
      body: {
        mode: 'rabbitmq',
        types: [`${name}/*`],
        rabbitmq: { servers: [rabbit.url], exchange: 'orders', routingKey: `${name}.{key}`, ...target },
        credentials: { username: 'guest', password: 'guest' },
        retrySchedule: Array.from({ length: 50 }, () => '100ms'),
        ...more,
      },
    });
  const post = async (type: string, key: string, payload: unknown = {}): Promise<string> => {
    const response = await replica.call('POST', '/v1/messages', { body: { type, key, payload } });
    expect(response.status).toBe(202);
    return response.body.id;
  };
  const deliveryOf = async (id: string) =>
    (await replica.call('GET', `/v1/messages/${id}`)).body.deliveries[0];
  const statusOf = async (id: string) => (await deliveryOf(id))?.status;
  const lastError = async (id: string): Promise<string> =>
    (await deliveryOf(id))?.attempts.at(-1)?.error ?? '';

  it('publishes a CloudEvent whose message id is that of the delivery, with the key as routing key', async () => {
    await queue('plain');
    const { status, body } = await put('plain');
    expect([status, body.rabbitmq.exchange, body.credentials.password]).toEqual([201, 'orders', '(hidden)']);
    const id = await post('plain/happened', 'k.ä', { n: 1 });
    await until(async () => (await statusOf(id)) === 'finished');
    const delivery = await deliveryOf(id);
    expect(delivery.attempts[0]).toMatchObject({ status: null, excerpt: 'confirmed by exchange orders' });
    expect(await rabbit.taken('plain')).toEqual([
      {
        id: delivery.id,
        routingKey: 'plain.k.ä',
        headers: expect.objectContaining({
          cloudEvents_id: id,
          cloudEvents_type: 'plain/happened',
          cloudEvents_subject: 'k.ä',
          cloudEvents_sequence: '1',
          traceparent: expect.stringMatching(/^00-/),
        }),
        text: '{"n":1}',
      },
    ]);
    expect((await replica.call('POST', '/v1/listeners/plain/test')).body).toMatchObject({
      delivered: true,
      status: null,
    });
  });

  it('fails as long as no queue takes the message, and is delivered when one is bound', async () => {
    await put('unbound');
    const id = await post('unbound/x', 'k');
    await until(async () => (await lastError(id)) !== '');
    expect(await lastError(id)).toBe(
      'rejected: no queue takes the routing key "unbound.k"; bind one to exchange orders',
    );
    await queue('unbound');
    await until(async () => (await statusOf(id)) === 'finished');
    expect(await rabbit.taken('unbound')).toHaveLength(1);
  });

  it.each([
    [
      'wrong credentials',
      {},
      { username: 'guest', password: 'wrong' },
      /^auth: .*ACCESS_REFUSED|^auth: .*refused/i,
    ],
    ['an exchange that does not exist', { exchange: 'none' }, undefined, /^setup: .*no exchange 'none'/],
    ['a virtual host that does not exist', { vhost: 'none' }, undefined, /^setup: .*vhost none not found/],
    ['a server without TLS', { servers: ['TLS'] }, undefined, /^(tls|reset|protocol): /],
    [
      'a routing key that is too long',
      { routingKey: '{key}{key}' },
      undefined,
      /^rejected: its routing key has more/,
    ],
  ])('with %s a delivery fails with the reason', async (what, target, credentials, error) => {
    const name = `bad-${what.replaceAll(/[^a-z]/gi, '')}`.slice(0, 30).toLowerCase();
    const given: Record<string, unknown> = target;
    const servers = String(given.servers) === 'TLS' ? { servers: [`amqps://127.0.0.1:${rabbit.port}`] } : {};
    const more = { retrySchedule: ['1ms'], ...(credentials ? { credentials } : {}) };
    expect((await put(name, { ...target, ...servers }, more)).status).toBe(201);
    const id = await post(`${name}/x`, 'k'.repeat(200));
    await until(async () => (await statusOf(id)) === 'dead');
    expect(await lastError(id)).toMatch(error);
  });

  it('counts no attempt while the server is away', async () => {
    await put('away', { servers: [AWAY] }, { retrySchedule: ['1ms'] });
    const id = await post('away/x', 'k');
    await until(async () => (await deliveryOf(id)).attempts.length > 2);
    expect(await lastError(id)).toMatch(/^refused: ECONNREFUSED/);
    expect(await statusOf(id)).not.toBe('dead');
  });

  it('fails while a queue refuses to grow, and loses nothing', async () => {
    await queue('full', { 'x-queue-type': 'classic', 'x-max-length': 1, 'x-overflow': 'reject-publish' });
    await put('full');
    const ids = [await post('full/x', 'k', 1), await post('full/x', 'k', 2)];
    await until(async () => (await lastError(ids[1]!)) !== '');
    expect(await lastError(ids[1]!)).toMatch(/^setup: the broker did not take it/);
    expect((await rabbit.taken('full')).map(({ text }) => text)).toEqual(['1']);
    await until(async () => (await statusOf(ids[1]!)) === 'finished');
    expect((await rabbit.taken('full')).map(({ text }) => text)).toEqual(['2']);
  });

  it('sends a message again, with the same id, when its confirmation is lost', async () => {
    await queue('lost');
    const proxy = await startBrokerProxy(rabbit.port);
    await put('lost', { servers: [`amqp://127.0.0.1:${proxy.port}`] });
    const first = await post('lost/x', 'k');
    await until(async () => (await statusOf(first)) === 'finished');
    proxy.swallowReplies();
    const second = await post('lost/x', 'k');
    await until(() => proxy.swallowed > 0);
    proxy.cut();
    await until(async () => (await statusOf(second)) === 'finished');
    const stored = (await rabbit.taken('lost')).filter(({ headers }) => headers.cloudEvents_id === second);
    expect(stored).toHaveLength(2);
    expect(new Set(stored.map(({ id }) => id))).toEqual(new Set([(await deliveryOf(second)).id]));
    await proxy.close();
  });

  it(
    'keeps the order of a key, and loses nothing, while the broker is killed and started again',
    async () => {
      // Not a quorum queue: RabbitMQ 3.10 forgets one that was declared shortly before it is killed, and confirms nothing.
      await queue('order', { 'x-queue-type': 'classic' });
      await put('order', {}, { retrySchedule: undefined, timeout: '3s' });
      const ids: string[] = [];
      for (let n = 0; n < 40; n++) {
        ids.push(await post('order/x', `k-${n % 4}`, n));
        if (n === 15) await rabbit.kill();
      }
      await rabbit.start();
      await until(
        async () => (await Promise.all(ids.map(statusOf))).every((status) => status === 'finished'),
        RESTART_MS,
      );
      const stored = await rabbit.taken('order');
      expect(new Set(stored.map(({ headers }) => headers.cloudEvents_id))).toEqual(new Set(ids));
      for (const key of ['k-0', 'k-1', 'k-2', 'k-3']) {
        const sequences = stored
          .filter(({ routingKey }) => routingKey.endsWith(key))
          .map(({ headers }) => Number(headers.cloudEvents_sequence));
        // A message whose confirmation was lost comes again at once, before the next one of its key.
        expect(sequences.filter((one, at) => one !== sequences[at - 1])).toEqual(
          Array.from({ length: 10 }, (_, n) => n + 1),
        );
      }
    },
    2 * RESTART_MS,
  );
});
