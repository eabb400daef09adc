import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { jetstream } from '@nats-io/jetstream';
import { connect, headers, type NatsConnection } from '@nats-io/transport-node';
import { Sources } from '../../src/sources/sources.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { type BrokerProxy, startBrokerProxy } from '../support/broker-proxy.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { hasNatsServer, type NatsServer, startNatsServer } from '../support/nats-server.ts';
import { until } from '../support/until.ts';

const BODY_LIMIT = 2_048;

(hasNatsServer('sources: NATS') ? describe : describe.skip)('a source that reads a stream', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-sources-'));
  const file = join(folder, 'definitions.yaml');
  let nats: NatsServer;
  let proxy: BrokerProxy;
  let client: NatsConnection;
  let database: TestDatabase;
  const replicas: TestApp[] = [];
  const app = () => replicas[0]!;

  const startReplica = async () => {
    const settings = { LISTENERS_FILE: file, EGRESS_ALLOW: '127.0.0.0/8', BODY_LIMIT: '2KiB' };
    replicas.push(await startApp(database, settings));
  };
  const connectClient = async () => {
    client = await connect({ servers: `127.0.0.1:${nats.port}` });
  };

  beforeAll(async () => {
    nats = await startNatsServer();
    await nats.addStream('EVENTS', ['events.>']);
    await nats.addStream('PLAIN', ['plain.>']);
    await nats.addStream('ORDER', ['order.>']);
    await nats.addStream('LOSSY', ['lossy.>']);
    proxy = await startBrokerProxy(nats.port);
    await connectClient();
    database = await createDatabase();
    writeFileSync(
      file,
      `sources:
  - { name: events, nats: { servers: ["${nats.url}"], stream: EVENTS } }
  - { name: plain, nats: { servers: ["${nats.url}"], stream: PLAIN, subject: "plain.*" }, type: plain.happened, source: urn:plain }
  - { name: order, nats: { servers: ["${nats.url}"], stream: ORDER }, type: ordered }
  - { name: lossy, nats: { servers: ["nats://127.0.0.1:${proxy.port}"], stream: LOSSY }, type: lossy.happened }\n`,
    );
    await startReplica();
  });
  afterAll(async () => {
    for (const replica of replicas) await replica.close();
    await client.close();
    await proxy.close();
    await database.drop();
    await nats.stop();
    rmSync(folder, { recursive: true });
  });

  const publish = (subject: string, body: string | Buffer, given: Record<string, string> = {}) => {
    const map = headers();
    for (const [name, value] of Object.entries(given)) map.set(name, value);
    return jetstream(client).publish(subject, body, { headers: map });
  };
  const event = (id: string, more: Record<string, string> = {}) => ({
    ...{ 'ce-specversion': '1.0', 'ce-id': id, 'ce-source': 'urn:shop', 'ce-type': 'shop.opened' },
    ...more,
  });
  const inbox = (type: string) =>
    database.query<{ id: string; source: string; key: string; payload: string }>(
      `SELECT id, source, key, payload::text AS payload FROM inbox WHERE type = $1 ORDER BY position`,
      [type],
    );
  const tokenOf = async (name: string) => {
    const [row] = await database.query<{ token: string }>('SELECT token FROM source WHERE name = $1', [name]);
    return row!.token;
  };
  /** The replica with this lease does not renew it any more, and does not know that it is over. */
  const freeze = async (token: string) => {
    const all = replicas.flatMap(({ app: { nest } }) => nest.get(Sources, { strict: false }).running);
    await all.find(({ lease }) => lease.token === token)!.loop.stop();
    await database.query(`UPDATE source SET leased_until = '-infinity' WHERE token = $1`, [token]);
  };
  const sourceOf = async (name: string) => (await app().call('GET', `/v1/sources/${name}`)).body;

  it('brings CloudEvents into the inbox exactly as they were published, and each once', async () => {
    const payload = '{"n": 1.0, "big": 1e3, "ä":"\\u0041"}';
    const given = event('e-1', {
      'ce-subject': 'k%20ä',
      'ce-time': '2026-01-01T00:00:00Z',
      'ce-region': 'eu',
    });
    await publish('events.a', payload, { ...given, 'content-type': 'application/json' });
    const structured = { specversion: '1.0', id: 'e-2', source: 'urn:shop', type: 'shop.opened', data: [1] };
    await publish('events.b', JSON.stringify(structured), { 'content-type': 'application/cloudevents+json' });
    await publish('events.a', payload, { ...given, 'content-type': 'application/json' });
    await until(async () => (await sourceOf('events')).duplicates === 1);
    expect(await inbox('shop.opened')).toEqual([
      { id: 'e-1', source: 'urn:shop', key: 'k ä', payload },
      { id: 'e-2', source: 'urn:shop', key: 'e-2', payload: '[1]' },
    ]);
    const { body } = await app().call('GET', '/v1/messages/e-1');
    expect(body).toMatchObject({ occurredAt: '2026-01-01T00:00:00.000Z', headers: { region: 'eu' } });
    expect(await sourceOf('events')).toMatchObject({
      ...{ name: 'events', kind: 'nats', state: 'running', error: null, accepted: 2, refused: 0 },
    });
  });

  it('passes over no message that was lost between the server and the replica', async () => {
    const arrived = async () => (await inbox('lossy.happened')).map(({ payload }) => JSON.parse(payload));
    await publish('lossy.k', '"first"');
    await until(async () => (await arrived()).length === 1);
    proxy.loseNext('"second"');
    await publish('lossy.k', '"second"');
    await until(() => proxy.swallowed > 0);
    await publish('lossy.k', '"third"');
    await until(async () => (await arrived()).length === 3);
    expect(await arrived()).toEqual(['first', 'second', 'third']);
  });

  it('takes other messages with the type of the source, and their subject as the key', async () => {
    const { seq } = await publish('plain.k-1', '{"a":1.50}');
    await publish('plain.k-1', 'no JSON', { 'content-type': 'text/plain', 'Nats-Msg-Id': 'own' });
    await until(async () => (await inbox('plain.happened')).length === 2);
    expect(await inbox('plain.happened')).toEqual([
      {
        id: expect.stringMatching(new RegExp(`^PLAIN/\\d+/${seq}$`)),
        source: 'urn:plain',
        key: 'plain.k-1',
        payload: '{"a":1.50}',
      },
      { id: 'own', source: 'urn:plain', key: 'plain.k-1', payload: '"no JSON"' },
    ]);
  });

  it('keeps what cannot be accepted, with the reason, and continues behind it', async () => {
    const json = { 'content-type': 'application/json' };
    await publish('events.a', '{"never":"an event"}', json);
    await publish('events.a', '{', { ...event('e-bad'), ...json });
    await publish('events.a', `"${'x'.repeat(BODY_LIMIT)}"`, { ...event('e-large'), ...json });
    await publish('events.a', '2', { ...event('e-1'), ...json });
    await publish('events.a', '3', { ...event('e-own', { 'ce-type': 'urn:sluice:alerts/x' }), ...json });
    await publish('events.a', '4', { ...event('e-4'), ...json });
    await until(async () => (await inbox('shop.opened')).some(({ id }) => id === 'e-4'));
    expect(await sourceOf('events')).toMatchObject({ state: 'running', refused: 5 });
    const { body } = await app().call('GET', '/v1/sources/events/refused');
    const reasons = body.items.map(({ reason }: { reason: string }) => reason);
    expect(reasons.toSorted()).toEqual([
      '/type must not begin with urn:sluice: (reserved for messages of the service)',
      'Expected a key in double quotes.',
      'it has 2050 bytes; BODY_LIMIT is 2048',
      'it is no CloudEvent, and the source has no "type" for others',
      'its id is taken by a message with other content',
    ]);
    const first = body.items.at(-1);
    expect(first).toMatchObject({ excerpt: '{"never":"an event"}', bytes: 20, headers: json });
    const raw = await app().call('GET', `/v1/sources/events/refused/${first.number}/body`);
    expect(raw.text).toBe('{"never":"an event"}');

    const discard = (more: object) =>
      app().call('POST', '/v1/sources/events/refused/discard', { body: { reason: 'a test', ...more } });
    expect((await discard({ numbers: [first.number] })).body).toEqual({ discarded: 1 });
    expect((await discard({})).body).toEqual({ discarded: 4 });
    expect((await discard({ numbers: ['x'] })).status).toBe(422);
    const audit = await app().call('GET', '/v1/audit');
    expect(audit.body.items[0]).toMatchObject({ action: 'source.discard', target: 'events', count: 4 });
  });

  it('waits when too many refused messages are kept, and continues when they are discarded', async () => {
    await database.query(
      `INSERT INTO source_refusal (source, place, reason, headers, body) SELECT 'events', 'x-' || n, 'planted', '{}', '' FROM generate_series(1, 999) AS n`,
    );
    await publish('events.a', '{}');
    await until(async () => (await sourceOf('events')).state === 'full');
    await publish('events.a', '5', event('e-5'));
    expect((await sourceOf('events')).error).toContain('1000 refused messages are kept');
    const needed = async () => (await app().call('GET', '/v1/attention')).body.items;
    await until(async () => (await needed()).length >= 2);
    expect(await needed()).toMatchObject([
      { kind: 'source-failing', severity: 'critical', subject: { source: 'events' } },
      { kind: 'messages-refused', severity: 'warning', subject: { source: 'events' }, count: 1_000 },
    ]);
    await app().call('POST', '/v1/sources/events/refused/discard', { body: { reason: 'a test' } });
    await until(async () => (await inbox('shop.opened')).some(({ id }) => id === 'e-5'));
  });

  it('is deleted only when no replica reads it', async () => {
    const remove = (name: string) => app().call('DELETE', `/v1/sources/${name}`);
    expect((await remove('events')).status).toBe(409);
    await database.query(`INSERT INTO source (name, kind) VALUES ('former', 'nats')`);
    expect((await sourceOf('former')).state).toBe('waiting');
    expect((await remove('former')).status).toBe(204);
    expect((await remove('former')).status).toBe(404);
  });

  it('loses nothing and keeps the order of keys, over a server that is killed, a replica that stops and one that is frozen', async () => {
    const COUNT = 600;
    await startReplica();
    let next = 0;
    const publishUpTo = async (end: number) => {
      for (; next < end; next++)
        await publish(`order.k-${next % 7}`, String(next), { 'Nats-Msg-Id': `o-${next}` });
    };
    await publishUpTo(150);
    await until(async () => (await inbox('ordered')).length > 0);
    await client.close();
    await nats.kill();
    await until(async () => (await sourceOf('order')).state === 'failing');
    expect((await sourceOf('order')).error).toMatch(/^(refused|reset)/);
    await nats.start();
    await connectClient();
    await publishUpTo(300);
    // As if the reader were frozen for longer than its lease: another replica begins while it goes on.
    const token = await tokenOf('order');
    await freeze(token);
    await publishUpTo(450);
    await until(async () => (await inbox('ordered')).length >= 450);
    await until(async () => (await tokenOf('order')) !== token);
    const [stopped] = replicas.splice(0, 1);
    await stopped!.close();
    await publishUpTo(COUNT);
    await until(async () => (await inbox('ordered')).length >= COUNT);
    const rows = await inbox('ordered');
    expect(rows).toHaveLength(COUNT);
    for (let key = 0; key < 7; key++) {
      const ofKey = rows.filter((one) => one.key === `order.k-${key}`).map(({ payload }) => Number(payload));
      expect(ofKey).toEqual(ofKey.toSorted((a, b) => a - b));
    }
  });
});
