import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Connection } from 'rabbitmq-client';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { hasRabbitServer, type RabbitServer, startRabbitServer } from '../support/rabbitmq-server.ts';
import { until } from '../support/until.ts';

(hasRabbitServer('sources: RabbitMQ') ? describe : describe.skip)('a source that reads a queue', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-sources-'));
  const file = join(folder, 'definitions.yaml');
  let rabbit: RabbitServer;
  let client: Connection;
  let database: TestDatabase;
  const replicas: TestApp[] = [];

  const startReplica = async () => {
    replicas.push(await startApp(database, { LISTENERS_FILE: file, EGRESS_ALLOW: '127.0.0.0/8' }));
  };
  const connectClient = async () => {
    client = rabbit.connection();
    await client.queueDeclare({ queue: 'events', durable: true });
    await client.queueDeclare({ queue: 'order', durable: true });
  };

  beforeAll(async () => {
    rabbit = await startRabbitServer();
    await connectClient();
    database = await createDatabase();
    writeFileSync(
      file,
      `sources:
  - { name: events, rabbitmq: { servers: ["${rabbit.url}"], queue: events }, type: plain }
  - { name: order, rabbitmq: { servers: ["${rabbit.url}"], queue: order }, type: ordered }\n`,
    );
    await startReplica();
  });
  afterAll(async () => {
    for (const replica of replicas) await replica.close();
    await client.close();
    await database.drop();
    await rabbit.stop();
    rmSync(folder, { recursive: true });
  });

  const publish = async (queue: string, body: string, properties: object = {}) => {
    const publisher = client.createPublisher({ confirm: true });
    await publisher.send({ routingKey: queue, durable: true, ...properties }, Buffer.from(body));
    await publisher.close();
  };
  const inbox = (type: string) =>
    database.query<{ id: string; source: string; key: string; payload: string }>(
      `SELECT id, source, key, payload::text AS payload FROM inbox WHERE type = $1 ORDER BY position`,
      [type],
    );
  const sourceOf = async (name: string) => (await replicas.at(-1)!.call('GET', `/v1/sources/${name}`)).body;
  const json = 'application/json';

  it('brings CloudEvents and other messages into the inbox exactly, though the client would parse JSON', async () => {
    const headers = {
      ...{ cloudEvents_specversion: '1.0', cloudEvents_id: 'e-1', 'cloudEvents:source': 'urn:"shop"' },
      ...{ cloudEvents_type: 'opened', cloudEvents_subject: '100 % ä', 'x-other': 1 },
    };
    const payload = '{"n": 1.0, "n2":1e3, "ä":"\\u0041"}';
    await publish('events', payload, { headers, contentType: json });
    await publish('events', '[1.50]', { messageId: 'p-1', contentType: json });
    await publish('events', 'no JSON', { messageId: 'p-2', contentType: 'text/plain' });
    await publish('events', '1', { contentType: json });
    await publish('events', '1', { messageId: 'p-3', contentType: json, contentEncoding: 'gzip' });
    await publish('events', payload, { headers, contentType: json });
    await until(async () => (await sourceOf('events')).duplicates === 1);
    expect(await inbox('opened')).toEqual([{ id: 'e-1', source: 'urn:"shop"', key: '100 % ä', payload }]);
    const plain = { source: 'rabbitmq:events', key: 'events' };
    expect(await inbox('plain')).toEqual([
      { ...plain, id: 'p-1', payload: '[1.50]' },
      { ...plain, id: 'p-2', payload: '"no JSON"' },
    ]);
    const { body } = await replicas[0]!.call('GET', '/v1/sources/events/refused');
    expect(body.items.map(({ reason }: { reason: string }) => reason).toSorted()).toEqual([
      'it has no message id, so a repeat would not be recognized',
      'its body is encoded (gzip)',
    ]);
  });

  it('loses nothing and keeps the order of keys, over a broker that is killed and a replica that stops', async () => {
    const COUNT = 300;
    await startReplica();
    let next = 0;
    const publishUpTo = async (end: number) => {
      for (; next < end; next++)
        await publish('order', `{"n":${next}}`, { messageId: `o-${next}`, contentType: json });
    };
    await publishUpTo(100);
    await until(async () => (await inbox('ordered')).length > 50);
    await client.close();
    await rabbit.kill();
    await until(async () => (await sourceOf('order')).state === 'failing');
    await rabbit.start();
    await connectClient();
    await publishUpTo(200);
    await until(async () => (await inbox('ordered')).length === 200);
    // The exclusive consumer of the replica that stops is gone with its connection: the other one goes on.
    const [stopped] = replicas.splice(0, 1);
    await stopped!.close();
    await publishUpTo(COUNT);
    await until(async () => (await inbox('ordered')).length === COUNT);
    const numbers = (await inbox('ordered')).map(({ payload }) => JSON.parse(payload).n);
    expect(numbers).toEqual([...numbers.keys()]);
    await until(async () => (await sourceOf('order')).accepted === COUNT);
  });

  it('is the only consumer of its queue', async () => {
    await until(async () => (await sourceOf('order')).state === 'running');
    const channel = await client.acquire();
    const refused = await channel.basicConsume({ queue: 'order' }, () => undefined).catch((error) => error);
    expect(String(refused)).toContain('exclusive');
  });
});
