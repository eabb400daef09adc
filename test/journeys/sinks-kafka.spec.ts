import { afterEach, describe, expect, it } from '@jest/globals';
import { KafkaPeer, type KafkaPeerOptions } from '../support/kafka-peer.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const LOGIN = { mechanism: 'SCRAM-SHA-512', username: 'sluice', password: 'right' };
const RETRIES = Array.from({ length: 50 }, () => '100ms');
const [NOT_ENOUGH_REPLICAS, TOPIC_AUTHORIZATION_FAILED] = [19, 29];

describe('a listener with the mode kafka', () => {
  const { replica } = sharedReplica({
    EGRESS_ALLOW: '127.0.0.0/8',
    SECRETS_KEYS: `test=${Buffer.alloc(32, 1).toString('base64')}`,
  });
  const peers: KafkaPeer[] = [];
  /** Each test has a listener and a type of its own. */
  let listeners = 0;

  afterEach(async () => {
    for (const peer of peers.splice(0)) {
      expect(peer.faults).toEqual([]);
      await peer.stop();
    }
  });

  const startPeer = async (options: KafkaPeerOptions = {}) => {
    const peer = await new KafkaPeer(options).start();
    peers.push(peer);
    return peer;
  };
  const listen = async (target: Record<string, unknown>, more: Record<string, unknown> = {}) => {
    const name = `kafka-${++listeners}`;
    const { status, body } = await replica.call('PUT', `/v1/listeners/${name}`, {
      body: {
        mode: 'kafka',
        types: [`${name}/*`],
        kafka: { topic: 'orders', ...target },
        retrySchedule: RETRIES,
        ...more,
      },
    });
    expect([status, body.kafka]).toEqual([201, { topic: 'orders', ...target }]);
    return {
      name,
      post: async (key: string, payload: unknown = {}): Promise<string> => {
        const message = { type: `${name}/x`, key, payload };
        const posted = await replica.call('POST', '/v1/messages', { body: message });
        expect(posted.status).toBe(202);
        return posted.body.id;
      },
    };
  };
  const deliveryOf = async (id: string) =>
    (await replica.call('GET', `/v1/messages/${id}`)).body.deliveries[0];
  const statusOf = async (id: string) => (await deliveryOf(id))?.status;
  const lastError = async (id: string): Promise<string> =>
    (await deliveryOf(id))?.attempts.at(-1)?.error ?? '';
  const finished = (...ids: string[]) =>
    until(async () => (await Promise.all(ids.map(statusOf))).every((status) => status === 'finished'));

  it('publishes a CloudEvent to the partition that the clients of Kafka choose for the key', async () => {
    const peer = await startPeer({ partitions: 4 });
    const { name, post } = await listen({ servers: peer.servers });
    const id = await post('foobar', { n: 1 });
    await finished(id);
    const delivery = await deliveryOf(id);
    // murmur2("foobar") is -790332482, as in Kafka's own tests; without its sign 1357151166.
    const excerpt = 'topic orders, partition 2, offset 0';
    expect(delivery.attempts[0]).toMatchObject({ status: null, excerpt });
    expect(peer.stored.get('orders/2')).toEqual([
      {
        key: 'foobar',
        text: '{"n":1}',
        headers: {
          ce_specversion: '1.0',
          ce_id: id,
          ce_source: expect.any(String),
          ce_type: `${name}/x`,
          ce_time: expect.any(String),
          ce_subject: 'foobar',
          ce_sequence: '1',
          ce_sequencetype: 'Integer',
          'content-type': 'application/json',
          'delivery-id': delivery.id,
          traceparent: expect.stringMatching(/^00-/),
        },
      },
    ]);
    expect((await replica.call('POST', `/v1/listeners/${name}/test`)).body).toMatchObject({
      delivered: true,
      status: null,
    });
  });

  it.each([
    ['plain', 'PLAIN'],
    ['scram-sha-256', 'SCRAM-SHA-256'],
    [undefined, 'SCRAM-SHA-512'],
  ])('logs in by %s, and fails as long as the password is wrong', async (given, mechanism) => {
    const peer = await startPeer({ login: { ...LOGIN, mechanism } });
    const target = { servers: peer.servers, ...(given ? { mechanism: given } : {}) };
    const credentials = { username: 'sluice', password: 'wrong' };
    const { name, post } = await listen(target, { credentials });
    const id = await post('k');
    await until(async () => (await lastError(id)) !== '');
    expect(await lastError(id)).toBe(
      'auth: the server refused: Authentication failed: Invalid username or password (Kafka SASL_AUTHENTICATION_FAILED)',
    );
    await replica.call('PUT', `/v1/listeners/${name}`, {
      body: {
        mode: 'kafka',
        types: [`${name}/*`],
        kafka: { topic: 'orders', ...target },
        credentials: { username: 'sluice', password: 'right' },
        retrySchedule: RETRIES,
      },
    });
    await finished(id);
    expect(peer.all()).toHaveLength(1);
  });

  it('fails with the reason while the topic is missing, and is delivered when it exists', async () => {
    const peer = await startPeer({ topics: [] });
    const { post } = await listen({ servers: peer.servers });
    const id = await post('k');
    await until(async () => (await lastError(id)) !== '');
    expect(await lastError(id)).toBe('setup: the topic does not exist: create it, or correct "topic"');
    peer.topics.add('orders');
    await finished(id);
  });

  it.each([
    ['too few replicas', NOT_ENOUGH_REPLICAS, /^setup: .*\(Kafka NOT_ENOUGH_REPLICAS\)$/],
    ['no permission', TOPIC_AUTHORIZATION_FAILED, /^auth: the server refused: .*TOPIC_AUTHORIZATION_FAILED/],
  ])('is sent again after an error: %s', async (_what, code, error) => {
    const peer = await startPeer();
    const { post } = await listen({ servers: peer.servers });
    peer.failWith = code;
    const id = await post('k');
    await until(async () => (await lastError(id)) !== '');
    expect(await lastError(id)).toMatch(error);
    expect(peer.all()).toEqual([]);
    peer.failWith = undefined;
    await finished(id);
    expect(peer.all()).toHaveLength(1);
  });

  it('only the message that is too large dies, not those that went with it', async () => {
    const peer = await startPeer({ maxMessageBytes: 2_000 });
    let open: () => void = () => undefined;
    peer.gate = new Promise((resolve) => {
      open = resolve;
    });
    const { post } = await listen({ servers: peer.servers }, { retrySchedule: ['1ms'] });
    const first = [await post('a'), await post('b')];
    await until(() => peer.produces === 1);
    const large = await post('large', 'x'.repeat(3_000));
    const small = [await post('c'), await post('d'), await post('e')];
    open();
    await finished(...first, ...small);
    await until(async () => (await statusOf(large)) === 'dead');
    expect(await lastError(large)).toMatch(/^rejected: .*\(Kafka MESSAGE_TOO_LARGE\)$/);
    expect(new Set(peer.all().map(({ key }) => key))).toEqual(new Set(['a', 'b', 'c', 'd', 'e']));
  });

  it.each(['drop', 'keep'] as const)(
    'a broker that takes a message and does not answer (%s) gets it again, with the same id',
    async (silence) => {
      const peer = await startPeer();
      const { post } = await listen({ servers: peer.servers }, { timeout: '1s' });
      await finished(await post('k', 0));
      peer.silence = silence;
      const [second, third] = [await post('k', 1), await post('k', 2)];
      await until(async () => (await lastError(second)) !== '');
      expect(await lastError(second)).toMatch(/^timeout: no acknowledgement/);
      peer.silence = undefined;
      await finished(second, third);
      const stored = peer.all().map(({ headers }) => headers['delivery-id']);
      const [{ id: secondDelivery }, { id: thirdDelivery }] = [
        await deliveryOf(second),
        await deliveryOf(third),
      ];
      // Before the next one of its key, as often as it was kept without an answer.
      expect(stored.filter((id, at) => id !== stored[at - 1]).slice(1)).toEqual([
        secondDelivery,
        thirdDelivery,
      ]);
      if (silence === 'drop') expect(stored).toHaveLength(3);
    },
  );

  it('counts no attempt while the brokers are away', async () => {
    const { post } = await listen({ servers: ['kafka://127.0.0.1:4'] }, { retrySchedule: ['1ms'] });
    const id = await post('k');
    await until(async () => (await deliveryOf(id)).attempts.length > 2);
    expect(await lastError(id)).toMatch(/^refused: ECONNREFUSED/);
    expect(await statusOf(id)).not.toBe('dead');
  });

  it('connects to no broker that the cluster names and the egress guard refuses', async () => {
    const peer = await startPeer({ advertisedHost: '10.0.0.1' });
    const { post } = await listen({ servers: peer.servers });
    const id = await post('k');
    await until(async () => (await lastError(id)) !== '');
    expect(await lastError(id)).toBe('egress: 10.0.0.1 is not a public address (private)');
    expect(peer.all()).toEqual([]);
  });

  it('follows the leaders when they change', async () => {
    const peer = await startPeer({ nodes: 2, partitions: 2 });
    const { post } = await listen({ servers: peer.servers });
    await finished(await post('a'), await post('b'), await post('c'), await post('d'));
    expect(peer.stored.size).toBe(2);
    peer.leaderOf = (partition) => 1 - partition;
    await finished(await post('a'), await post('b'), await post('c'), await post('d'));
    expect(peer.all()).toHaveLength(8);
  });

  it('keeps the order of a key, and loses nothing, while a broker is stopped and started again', async () => {
    const peer = await startPeer({ nodes: 2, partitions: 4 });
    const { post } = await listen({ servers: peer.servers }, { retrySchedule: undefined });
    const ids: string[] = [];
    for (let n = 0; n < 60; n++) {
      ids.push(await post(`k-${n % 6}`, n));
      if (n === 20) await peer.stopNode(0);
      if (n === 30) peer.leaderOf = () => 1;
      if (n === 40) await peer.startNode(0);
    }
    await finished(...ids);
    for (let key = 0; key < 6; key++) {
      const numbers = peer
        .all()
        .filter((record) => record.key === `k-${key}`)
        .sort((one, other) => Number(one.headers.ce_sequence) - Number(other.headers.ce_sequence));
      expect(numbers.map(({ text }) => Number(text))).toEqual(
        Array.from({ length: 10 }, (_, n) => key + 6 * n),
      );
    }
  });
});
