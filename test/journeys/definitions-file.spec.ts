import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import type { TestApp } from '../support/app.ts';
import { replicasPerTest } from '../support/replicas-per-test.ts';
import { until } from '../support/until.ts';

const FOLDER = mkdtempSync(join(tmpdir(), 'sluice-definitions-'));
const FILE = join(FOLDER, 'sluice.yaml');

const { start, refusal, query } = replicasPerTest({ ROLES: 'api', LISTENERS_FILE: FILE });

/** A replica that starts with this file. */
async function startWith(...lines: string[]): Promise<TestApp> {
  writeFileSync(FILE, lines.join('\n'));
  return start({});
}

/** Why a replica does not start with this file. */
async function faultsOf(...lines: string[]): Promise<string[]> {
  writeFileSync(FILE, lines.join('\n'));
  return (await refusal({})).split('\n').map((line) => line.replace(FOLDER, ''));
}

/** All that a file can define, as it is stored. */
const stored = () =>
  query<{ row: unknown }>(`
    SELECT to_jsonb(topic) AS row FROM topic UNION ALL
    SELECT to_jsonb(consumer_group) FROM consumer_group UNION ALL
    SELECT to_jsonb(listener) FROM listener`);

async function audited(replica: TestApp): Promise<string[]> {
  const { items } = (await replica.call('GET', '/v1/audit?limit=500')).body;
  return items
    .map(({ by, action, target, reason }: Record<string, string>) => `${by} ${action} ${target}: ${reason}`)
    .reverse();
}

const warnings = ({ lines }: TestApp) => lines.filter((line) => line.includes('definitions.kept'));

const ORDERS = ['topics:', '  - name: orders', '    partitions: 4', '    types: [order.*]'];
const BILLING = ['groups:', '  - name: billing', '    topics: [orders]'];

describe('topics and groups in LISTENERS_FILE', () => {
  it('B2: are created at a start together with listeners, and serve messages', async () => {
    const replica = await startWith(
      'listeners:',
      '  - { name: crm, types: [order.*], url: "https://1.1.1.1/" }',
      ...ORDERS,
      '    retention: 3d',
      '  - name: refunds',
      ...BILLING,
      '    session: 10s',
      '    attempts: 3',
      '    start: { time: 2026-01-01T00:00:00+01:00 }',
      '  - { name: audit, topics: [orders, refunds], start: latest, takeover: skip, onExpired: stop, maxInFlight: 7 }',
    );
    expect((await replica.call('GET', '/v1/topics/orders')).body).toMatchObject({
      types: ['order.*'],
      retention: '3d',
      origin: 'file',
      partitions: [0, 1, 2, 3].map((partition) => ({ partition, earliest: 0, next: 0 })),
    });
    expect((await replica.call('GET', '/v1/topics/refunds')).body).toMatchObject({ types: ['refunds'] });
    expect((await replica.call('GET', '/v1/groups/billing')).body).toMatchObject({
      topics: ['orders'],
      session: '10s',
      attempts: 3,
      start: { time: '2025-12-31T23:00:00Z' },
      origin: 'file',
    });
    expect((await replica.call('GET', '/v1/groups/audit')).body).toMatchObject({
      topics: ['orders', 'refunds'],
      start: 'latest',
      takeover: 'skip',
      onExpired: 'stop',
      maxInFlight: 7,
    });
    expect((await replica.call('GET', '/v1/listeners/crm')).status).toBe(200);
  });

  it('B2: get every message that is applied from the first one on', async () => {
    writeFileSync(FILE, [...ORDERS, ...BILLING].join('\n'));
    const replica = await start({ ROLES: 'api,inbox', INBOX_UNHANDLED: 'finish' });
    await replica.call('POST', '/v1/messages', { body: { type: 'order.paid', key: 'o-1', payload: 1 } });
    const { member } = (await replica.call('POST', '/v1/groups/billing/members')).body;
    const batch = await until(async () => {
      const { body } = await replica.call('POST', '/v1/groups/billing/poll', {
        body: { member, wait: '20s' },
      });
      return body.batches[0];
    });
    expect(batch.messages).toMatchObject([{ offset: 0, type: 'order.paid', key: 'o-1', payload: 1 }]);
  });

  it('B2: that are the same change nothing: no revision, no line in the audit log', async () => {
    const lines = [...ORDERS, ...BILLING, '    start: { time: 2026-01-01T00:00:00Z }'];
    await startWith(...lines);
    const before = [await stored(), await query('SELECT * FROM audit')];
    const again = await startWith(...lines);
    expect([await stored(), await query('SELECT * FROM audit')]).toEqual(before);
    expect(await audited(again)).toEqual([
      'LISTENERS_FILE topic.put orders: created',
      'LISTENERS_FILE group.put billing: created',
    ]);
  });

  it('are changed where the file was changed', async () => {
    await startWith(...ORDERS, ...BILLING);
    const replica = await startWith(
      'topics:',
      '  - name: orders',
      '    types: [order.*, invoice.*]',
      '    retention: 2d',
      '  - name: refunds',
      'groups:',
      '  - name: billing',
      '    topics: [orders, refunds]',
      '    session: 5s',
    );
    expect((await replica.call('GET', '/v1/topics/orders')).body).toMatchObject({
      types: ['order.*', 'invoice.*'],
      retention: '2d',
      partitions: { length: 4 },
    });
    const { body } = await replica.call('GET', '/v1/groups/billing');
    expect([body.topics, body.session, body.partitions.length]).toEqual([['orders', 'refunds'], '5s', 20]);
    expect((await audited(replica)).slice(2)).toEqual([
      'LISTENERS_FILE topic.put orders: changed: retention, types',
      'LISTENERS_FILE topic.put refunds: created',
      'LISTENERS_FILE group.put billing: changed: session, topics',
    ]);
  });

  it('cannot be changed or deleted by API', async () => {
    const replica = await startWith(...ORDERS, ...BILLING);
    for (const path of ['/v1/topics/orders', '/v1/groups/billing'])
      for (const method of ['PUT', 'DELETE']) {
        const body = method === 'PUT' ? { body: path.includes('groups') ? { topics: ['orders'] } : {} } : {};
        const refused = await replica.call(method, path, body);
        expect([refused.status, refused.body.detail]).toEqual([
          409,
          expect.stringContaining('LISTENERS_FILE'),
        ]);
      }
  });

  it('stay when they are removed from it, with a warning that names the next step, once', async () => {
    await startWith(...ORDERS, ...BILLING);
    const second = await startWith('topics: []', 'groups: []');
    expect(warnings(second).map((line) => JSON.parse(line))).toMatchObject([
      { topic: 'orders', msg: expect.stringContaining('DELETE /v1/topics/orders') },
      { group: 'billing', msg: expect.stringContaining('DELETE /v1/groups/billing') },
    ]);
    expect((await second.call('GET', '/v1/topics/orders')).body.origin).toBe('api');
    expect((await second.call('GET', '/v1/groups/billing')).body.partitions).toHaveLength(4);
    const third = await startWith('topics: []', 'groups: []');
    expect(warnings(third)).toEqual([]);
    expect((await third.call('DELETE', '/v1/groups/billing')).status).toBe(204);
    expect((await third.call('DELETE', '/v1/topics/orders')).status).toBe(204);
  });

  it('may come back as they were, unless the API has changed them since', async () => {
    await startWith(...ORDERS, ...BILLING);
    await startWith('topics: []', 'groups: []');
    const third = await startWith(...ORDERS, ...BILLING);
    expect((await third.call('GET', '/v1/topics/orders')).body.origin).toBe('file');
    expect((await third.call('GET', '/v1/groups/billing')).body.origin).toBe('file');
    const fourth = await startWith('topics: []', 'groups: []');
    await fourth.call('PUT', '/v1/topics/orders', { body: { types: ['order.paid'] } });
    await fourth.call('PUT', '/v1/groups/billing', { body: { topics: ['orders'] } });
    expect(await faultsOf(...ORDERS, ...BILLING)).toEqual([
      '/sluice.yaml:2: topic orders was created by API; rename this one, or delete that one first',
      '/sluice.yaml:6: group billing was created by API; rename this one, or delete that one first',
    ]);
  });

  it('are not touched by a file without their section; neither are listeners', async () => {
    const listener = ['listeners:', '  - { name: crm, types: [a], url: "https://1.1.1.1/" }'];
    await startWith(...listener, ...ORDERS, ...BILLING);
    const before = await stored();
    for (const lines of [listener, ORDERS, BILLING]) {
      const replica = await startWith(...lines);
      expect([await stored(), warnings(replica)]).toEqual([before, []]);
    }
  });

  it('are applied once when replicas start together', async () => {
    writeFileSync(FILE, [...ORDERS, ...BILLING].join('\n'));
    await Promise.all(Array.from({ length: 5 }, () => start({ DATABASE_POOL_SIZE: '4' })));
    expect(await query('SELECT target FROM audit')).toHaveLength(2);
  });
});

describe('a file with faults in sources', () => {
  it('is reported fault by fault with its line', async () => {
    const faults = await faultsOf(
      'sources:', // 1
      '  - name: both', // 2
      '    nats: { servers: ["nats://127.0.0.1"], stream: S }', // 3
      '    rabbitmq: { servers: ["amqp://127.0.0.1"], queue: q }', // 4
      '  - name: neither', // 5
      '    typ: a', // 6
      '  - name: nats', // 7
      '    nats:', // 8
      '      servers:', // 9
      '        - amqp://127.0.0.1', // 10
      '    type: "urn:sluice:x"', // 11
      '  - name: rabbit', // 12
      '    rabbitmq: { servers: ["amqp://127.0.0.1"], queue: q }', // 13
      '    credentials: { token: secret-token }', // 14
    );
    const at = (line: number) => faults.filter((fault) => fault.startsWith(`/sluice.yaml:${line}: `)).join();
    expect(at(2)).toMatch(/sources\[0\] must have either "nats" or "rabbitmq"/);
    expect(at(6)).toMatch(/sources\[1\]\.typ is not a known field; did you mean "type"\?/);
    expect(at(8)).toMatch(/sources\[2\]\.nats\.stream is required/);
    expect(at(11)).toMatch(/sources\[2\]\.type must not begin with "urn:sluice:"/);
    expect(at(14)).toMatch(/sources\[3\]\.credentials must be username and password/);
    expect(faults.join()).not.toContain('secret-token');
  });
});

describe('a file with faults in topics and groups', () => {
  it('is reported fault by fault with its line, and nothing of it is applied', async () => {
    const faults = await faultsOf(
      'topics:', // 1
      '  - name: good', // 2
      '  - name: billing.dead', // 3
      '    partitons: 4', // 4
      '  - name: wrong', // 5
      '    partitions: 300', // 6
      '    types:', // 7
      '      - fine', // 8
      '      - ""', // 9
      '    retention: 5', // 10
      '  - partitions: 2', // 11
      '  - text', // 12
      '  - name: good', // 13
      'groups:', // 14
      '  - name: nothing', // 15
      '  - name: billing', // 16
      '    topics:', // 17
      '      - good', // 18
      '      - good', // 19
      '    session: 1ms', // 20
      '    start: tomorrow', // 21
      `  - name: ${'n'.repeat(60)}`, // 22
      '    topics: [good]', // 23
      '    atempts: 3', // 24
      'listeners:', // 25
      '  - name: crm', // 26
      '  - { name: work, mode: pull, types: [a], secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw }', // 27
      'topcis: []', // 28
    );
    const at = (line: number) => faults.filter((fault) => fault.startsWith(`/sluice.yaml:${line}: `)).join();
    expect(at(3)).toMatch(/topics\[1\]\.name must not end with ".dead"/);
    expect(at(4)).toMatch(/topics\[1\]\.partitons is not a known field; did you mean "partitions"\?/);
    expect(at(6)).toMatch(/topics\[2\]\.partitions must be a whole number from 1 to 256/);
    expect(at(10)).toMatch(/topics\[2\]\.retention must be a duration/);
    expect(at(11)).toMatch(/topics\[3\]\.name is required/);
    expect(at(12)).toMatch(/topics\[4\] must be a mapping with a name/);
    expect(at(13)).toMatch(/topics\[5\]\.name is also the name of topics\[0\]/);
    expect(at(15)).toMatch(/groups\[0\]\.topics is required/);
    expect(at(20)).toMatch(/groups\[1\]\.session must be a duration/);
    expect(at(21)).toMatch(/groups\[1\]\.start must be "earliest", "latest" or/);
    expect(at(22)).toMatch(/groups\[2\]\.name must be .* at most 55 characters/);
    expect(at(24)).toMatch(/groups\[2\]\.atempts is not a known field; did you mean "attempts"\?/);
    expect(at(26)).toMatch(/listeners\[0\]\.types is required/);
    expect(at(27)).toMatch(/listeners\[1\]\.secret is only for the mode "webhook"/);
    expect(at(28)).toMatch(
      /topcis is not known here; only "listeners", "topics", "groups" and "sources" are/,
    );
    expect(await stored()).toEqual([]);
  });

  it('is refused for an element of a list, at its line', async () => {
    expect(
      await faultsOf(...BILLING.slice(0, 2), '    topics:', '      - orders', '      - orders', ...ORDERS),
    ).toEqual(['/sluice.yaml:5: groups[0].topics[1] is the same as number 0']);
    expect(await faultsOf('topics:', '  - name: a', '    types:', '      - fine', '      - ""')).toEqual([
      '/sluice.yaml:5: topics[0].types[1] must be a type, or a pattern with *',
    ]);
  });

  it('is refused if it changes partitions, or names a topic that is nowhere: nothing is applied', async () => {
    const replica = await startWith(...ORDERS, ...BILLING);
    await replica.call('PUT', '/v1/topics/by-api', { body: {} });
    await replica.call('PUT', '/v1/groups/by-api', { body: { topics: ['by-api'] } });
    const before = await stored();
    const faults = await faultsOf(
      'listeners:',
      '  - { name: crm, types: [a], url: "https://1.1.1.1/" }',
      'topics:',
      '  - name: orders',
      '    types: [order.*]',
      '    partitions: 8',
      '  - name: by-api',
      '  - name: fresh',
      'groups:',
      '  - name: billing',
      '    topics:',
      '      - orders',
      '      - fresh',
      '      - by-api',
      '      - nowhere',
      '  - { name: by-api, topics: [fresh] }',
    );
    expect(faults).toEqual([
      '/sluice.yaml:6: topic orders has 4 partitions, which cannot change; leave partitions out, or rename it',
      '/sluice.yaml:7: topic by-api was created by API; rename this one, or delete that one first',
      '/sluice.yaml:15: group billing reads topic "nowhere", which neither exists nor is defined in this file',
      '/sluice.yaml:16: group by-api was created by API; rename this one, or delete that one first',
    ]);
    expect(await stored()).toEqual(before);
  });

  it('may have a group that reads a topic of the API, or the dead letters of a group before it', async () => {
    const first = await startWith(...ORDERS);
    await first.call('PUT', '/v1/topics/by-api', { body: { partitions: 1 } });
    const replica = await startWith(...BILLING, '  - { name: repair, topics: [billing.dead, by-api] }');
    expect((await replica.call('GET', '/v1/groups/repair')).body.partitions).toHaveLength(2);
  });
});
