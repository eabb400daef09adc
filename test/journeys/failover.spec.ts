import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { DataSource } from 'typeorm';
import { checkDatabase } from '../../src/cli/doctor/database-checks.ts';
import { replicationFinding } from '../../src/cli/doctor/replication-finding.ts';
import { loadSettings } from '../../src/config/settings.ts';
import { NotReplicated } from '../../src/database/errors.ts';
import { migrate } from '../../src/database/migrate.ts';
import { readReplication } from '../../src/database/replication.ts';
import type { Listener } from '../../src/listeners/listener.ts';
import { LeasedLanes } from '../../src/outbox/claim/leased-lanes.ts';
import type { ClaimedDelivery } from '../../src/outbox/claim/outbox-queue.ts';
import { ResultWriter } from '../../src/outbox/settle/result-writer.ts';
import { type ApiResponse, startApp, type TestApp } from '../support/app.ts';
import { withClient } from '../support/client.ts';
import { countingReadModel } from '../support/counting-read-model.ts';
import type { TestDatabase } from '../support/database.ts';
import { leasedForAnHour } from '../support/leased-lane.ts';
import { metricsText } from '../support/metrics.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { SCHEMA } from '../support/schema.ts';
import { Server } from '../support/standby.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { waitUntilKnown } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

/** Several servers are created and killed, which takes time on a busy machine. */

const SETTINGS = { fsync: 'off', max_connections: '100', wal_keep_size: '256MB' };
const NOWHERE = 'postgres://127.0.0.1:1/nowhere';

let primary: Server;
let standby: Server;
let wire: TcpProxy;

async function open(): Promise<void> {
  primary = await Server.start(SETTINGS);
  await migrate(primary.postgres.url, loadSettings({}), [...SCHEMA, countingReadModel]);
  standby = await primary.startStandby('second');
  wire = await startTcpProxy(primary.postgres.url, { remember: false });
}

async function close(): Promise<void> {
  await wire.close();
  await standby.remove();
  await primary.remove();
}

/** Runs a statement on that server, outside of the service. */
async function on<Row = Record<string, unknown>>(
  { postgres }: Server,
  sql: string,
  values: unknown[] = [],
): Promise<Row[]> {
  return withClient(postgres.url, async (client) => (await client.query(sql, values)).rows);
}

function start(environment: Record<string, string> = {}): Promise<TestApp> {
  return startApp({ url: wire.url } as TestDatabase, environment);
}

/** As an operator names the servers: both hosts in one URL. */
function bothServers(): string {
  const [first, second] = [primary, standby].map(({ postgres }) => new URL(postgres.url));
  return `${first!.href.replace(first!.host, `${first!.host},${second!.host}`)}?target_session_attrs=read-write`;
}

const waiting = () =>
  on<{ pid: number }>(primary, `SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'`);

describe('a commit that waits for a standby', () => {
  beforeAll(open);
  afterAll(close);

  const one = (id: string) => ({
    path: '/v1/messages',
    body: { id, type: 'counted/x', key: 'k', payload: 1 },
  });
  const batch = (id: string) => ({ path: '/v1/messages/batch', body: { messages: [one(id).body] } });

  it('is what the metrics and the doctor say of the loss of the server', async () => {
    const replica = await start({ ROLES: 'upkeep', METRICS_INTERVAL: '100ms' });
    const shown = async () => {
      const text = await metricsText(replica);
      return [...text.matchAll(/^sluice_database_(?:survives|standbys)\S* \d+$/gm)].map(([line]) => line);
    };
    const become = (survives: number, synchronous: number, asynchronous: number) =>
      until(async () => {
        const lines = await shown();
        const expected = [
          `survives_node_loss ${survives}`,
          `standbys_needed ${survives}`,
          `standbys{state="synchronous"} ${synchronous}`,
          `standbys{state="asynchronous"} ${asynchronous}`,
        ];
        return expected.every((one) => lines.includes(`sluice_database_${one}`));
      });
    const verdict = async (url = primary.postgres.url) =>
      (await checkDatabase(url)).find(({ check }) => check === 'loss of the server');
    try {
      await become(0, 0, 1);
      expect(await verdict()).toMatchObject({
        verdict: 'warning',
        found: expect.stringContaining('commits wait for no standby; 1 asynchronous standbys'),
      });

      await primary.awaitStandby('second');
      await become(1, 1, 0);
      expect(await verdict()).toMatchObject({
        verdict: 'warning',
        found: 'a 202 survives it; without one of the 1 standbys all commits wait',
      });
      await on(primary, `CREATE ROLE curious LOGIN PASSWORD 'curious'`);
      const login = { username: 'curious', password: 'curious' };
      const hidden = await withClient(Object.assign(new URL(primary.postgres.url), login).href, (curious) =>
        readReplication(async (sql) => (await curious.query(sql)).rows),
      );
      expect(replicationFinding(hidden).found).toBe(
        'commits wait for 1 standbys, which this role may not see',
      );
      expect(await verdict(standby.postgres.url)).toBeUndefined();

      await standby.postgres.stop();
      await become(1, 0, 0);
      expect(await verdict()).toMatchObject({
        verdict: 'failed',
        found: '0 of the 1 standbys that commits wait for are connected: posts end as 503',
      });
      standby = await standby.restart();
    } finally {
      await replica.close();
    }
  });

  it.each([
    ['one statement', 'api', one, 'a'],
    ['a transaction', 'api', batch, 'b'],
    ['a lone message that takes its lane along', 'api,inbox', one, 'c'],
  ])(
    'is no 202 when the wait is cancelled, and its repeat no 200 before it is replicated: %s',
    async (_, roles, of, id) => {
      await primary.awaitStandby('second');
      const replica = await start({ ROLES: roles });
      try {
        const { path, body } = of(id);
        const post = () => replica.call('POST', path, { body });
        await standby.postgres.stop();
        let response: ApiResponse | undefined;
        const posting = post().then((came) => {
          response = came;
        });
        await until(async () => {
          for (const { pid } of await waiting()) await on(primary, 'SELECT pg_cancel_backend($1)', [pid]);
          return response;
        });
        await posting;
        expect([response!.status, response!.body.type]).toEqual([503, 'urn:sluice:problems/database-away']);
        expect(response!.headers.get('retry-after')).toBe('1');
        expect(await on(primary, 'SELECT FROM inbox WHERE id = $1', [id])).toHaveLength(1);

        let back = false;
        const again = post().then(({ status }) => ({ status, back }));
        await until(async () => (await waiting()).length > 0);
        back = true;
        standby = await standby.restart();
        expect(await again).toEqual({ status: of === one ? 200 : 202, back: true });
      } finally {
        await replica.close();
      }
    },
  );

  it('is an error of a transaction of TypeORM, too', async () => {
    await primary.awaitStandby('second');
    const replica = await start({ ROLES: 'api' });
    try {
      await standby.postgres.stop();
      let ended: unknown;
      const writing = replica.app.nest
        .get(DataSource)
        .transaction((manager) => manager.query('CREATE TABLE written_by_typeorm ()'))
        .then(
          () => 'committed',
          (error: Error) => error,
        )
        .then((result) => {
          ended = result;
        });
      await until(async () => {
        for (const { pid } of await waiting()) await on(primary, 'SELECT pg_cancel_backend($1)', [pid]);
        return ended;
      });
      await writing;
      expect(ended).toMatchObject({ driverError: expect.any(NotReplicated) });
      expect(await on(primary, `SELECT FROM pg_class WHERE relname = 'written_by_typeorm'`)).toHaveLength(1);
      standby = await standby.restart();
    } finally {
      await replica.close();
    }
  });
});

describe('a failover to a standby that commits wait for', () => {
  let replica: TestApp;
  let receiver: Receiver;

  beforeAll(async () => {
    await open();
    await primary.awaitStandby('second');
    replica = await startApp(
      { url: bothServers() } as TestDatabase,
      { OUTBOX_POLL: '100ms', INBOX_POLL: '100ms', EGRESS_ALLOW: '127.0.0.0/8' },
      [countingReadModel],
    );
    receiver = await startReceiver();
    await replica.call('PUT', '/v1/listeners/l', { body: { types: ['counted/*'], url: receiver.url } });
    await waitUntilKnown(replica, 'l');
  });
  afterAll(async () => {
    await replica.close();
    await receiver.close();
    await close();
  });

  it('is followed within a second, and loses nothing that was accepted; everything is applied once and delivered', async () => {
    const accepted: string[] = [];
    let over = false;
    const produce = async (producer: number) => {
      for (let n = 0; !over; n++) {
        const body = { id: `${producer}-${n}`, type: 'counted/x', key: `k${producer}`, payload: n };
        const post = async () => {
          const { status } = await replica.call('POST', '/v1/messages', { body });
          expect([200, 202, 503]).toContain(status);
          return status !== 503;
        };
        await until(post, 120_000);
        accepted.push(body.id);
      }
    };
    const producing = Promise.all(Array.from({ length: 8 }, (_, index) => produce(index)));
    await until(() => accepted.length > 200);
    await primary.crash();
    await standby.promote();
    const promotedAt = performance.now();
    const before = accepted.length;
    await until(() => accepted.length > before);
    expect(performance.now() - promotedAt).toBeLessThan(1_000);
    await until(() => accepted.length > before + 200);
    over = true;
    await producing;
    const open = `SELECT FROM inbox WHERE settled_at IS NULL UNION ALL SELECT FROM outbox WHERE settled_at IS NULL LIMIT 1`;
    await until(async () => (await on(standby, open)).length === 0);

    const stored = await on<{ id: string; status: string; times: number; delivered: number }>(
      standby,
      `SELECT id, status, (SELECT count(*) FROM tested.applied WHERE applied.id = inbox.id)::int AS times,
              (SELECT count(*) FROM outbox WHERE message = inbox.position AND outbox.status = 'finished')::int AS delivered
       FROM inbox`,
    );
    const done = stored.filter((row) => row.status === 'finished' && row.times === 1 && row.delivered === 1);
    expect(done).toHaveLength(stored.length);
    expect(accepted.filter((id) => !done.some((row) => row.id === id))).toEqual([]);
    const received = new Set(receiver.received.map(({ body }) => body.id));
    expect(accepted.filter((id) => !received.has(id))).toEqual([]);
    const moves = replica.lines.filter((line) => line.includes('database.primary-moved'));
    expect(moves).toEqual([expect.stringContaining(new URL(standby.postgres.url).host)]);
  });
});

describe('a failover that loses a commit whose reply was lost', () => {
  beforeAll(open);
  afterAll(close);

  it('does not mistake a later transaction with the same id for it: the results are written again', async () => {
    const replica = await start({ ROLES: 'api' });
    try {
      const token = randomUUID();
      await on(
        primary,
        `INSERT INTO lane (queue, lane, token, leased_until) VALUES ('outbox', 256, $1, now() + interval '1 hour')`,
        [token],
      );
      const [row] = await on<{ position: string }>(
        primary,
        `INSERT INTO outbox (listener, lane, message, key, sequence, status, attempt)
         VALUES (1, 256, 1, 'k', 1, 'processing', 1) RETURNING *`,
      );
      await until(async () => (await on(standby, 'SELECT FROM outbox')).length > 0);
      await standby.postgres.stop();

      wire.switchTo(NOWHERE);
      wire.cutAtCommit('after');
      const leased = leasedForAnHour(256, token);
      replica.app.nest.get(LeasedLanes).add(leased);
      const settling = replica.app.nest.get(ResultWriter);
      settling.add({
        kind: 'sent',
        leased,
        delivery: { ...row, position: Number(row!.position), age_ms: 0 } as unknown as ClaimedDelivery,
        listener: { name: 'l', onDead: 'skip' } as Listener,
        callResult: { kind: 'responded', status: 200, excerpt: '', durationMs: 7 },
        outcome: { kind: 'delivered' },
        atMs: performance.now(),
      });
      const settled = settling.end(leased, true);
      const lost = await until(async () => {
        const rows = await on<{ id: string }>(
          primary,
          `SELECT xmin::text AS id FROM outbox WHERE status = 'finished'`,
        );
        return rows[0]?.id;
      });
      await primary.crash();
      standby = await standby.restart();
      await standby.promote();
      await until(async () => {
        const [used] = await on<{ id: string }>(standby, 'SELECT pg_current_xact_id()::text AS id');
        return Number(used!.id) > Number(lost);
      });
      const [status] = await on(standby, 'SELECT pg_xact_status($1::xid8) AS status', [lost]);
      expect(status).toEqual({ status: 'committed' });
      expect(await on(standby, 'SELECT status FROM outbox')).toEqual([{ status: 'processing' }]);

      wire.switchTo(standby.postgres.url);
      await settled;
      replica.app.nest.get(LeasedLanes).drop(leased);
      expect(await on(standby, 'SELECT status, attempt FROM outbox')).toEqual([
        { status: 'finished', attempt: 1 },
      ]);
      expect(await on(standby, 'SELECT FROM attempt')).toEqual([]);
    } finally {
      await replica.close();
    }
  });
});
