import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { checkStandbys } from '../../src/cli/doctor/standby-checks.ts';
import { loadSettings } from '../../src/config/settings.ts';
import { connectionOptions } from '../../src/database/connection.ts';
import { migrate } from '../../src/database/migrate.ts';
import { StandbyRun } from '../../src/database/standby-run.ts';
import { PRIMARY_POSITION } from '../../src/standbys/primary-trail.ts';
import { type CallOptions, PRODUCE_KEY, startApp, type TestApp } from '../support/app.ts';
import { balanceReadModel } from '../support/balance-read-model.ts';
import { withClient } from '../support/client.ts';
import type { TestDatabase } from '../support/database.ts';
import { metricIncreases, metricsText } from '../support/metrics.ts';
import { SCHEMA } from '../support/schema.ts';
import { Server } from '../support/standby.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

/** Several servers are created and killed, which takes time on a busy machine. */

const NOWHERE = 'postgres://127.0.0.1:1/nowhere';
const SETTINGS = { fsync: 'off', max_connections: '100', wal_keep_size: '256MB' };

let primary: Server;
let b: Server;
let c: Server;
/** To b. */
let wire: TcpProxy;
let replica: TestApp;

async function open(): Promise<void> {
  primary = await Server.start(SETTINGS);
  await migrate(primary.postgres.url, loadSettings({}), [...SCHEMA, balanceReadModel]);
  b = await primary.startStandby('b');
  c = await primary.startStandby('c');
  wire = await startTcpProxy(b.postgres.url, { remember: false });
}

async function close(): Promise<void> {
  await replica.close();
  await wire.close();
  await c.remove();
  await b.remove();
  await primary.remove();
}

/** As an operator names the servers: all hosts in one URL. */
function hostsOf(...urls: readonly string[]): string {
  const [first, ...others] = urls.map((url) => new URL(url));
  return first!.href.replace(first!.host, [first, ...others].map((one) => one!.host).join(','));
}

function start(databaseUrl: string): Promise<TestApp> {
  return startApp(
    { url: databaseUrl } as TestDatabase,
    {
      DATABASE_URL: databaseUrl,
      READ_DATABASE_URL: hostsOf(wire.url, c.postgres.url),
      READ_MAX_LAG: '1s',
      INBOX_POLL: '100ms',
      LOG_LEVEL: 'info',
    },
    [balanceReadModel],
  );
}

async function on<Row = Record<string, unknown>>(
  { postgres }: Server,
  sql: string,
  values: unknown[] = [],
): Promise<Row[]> {
  return withClient(postgres.url, async (client) => (await client.query(sql, values)).rows);
}

const portOf = ({ postgres }: Server) => Number(new URL(postgres.url).port);
const pause = () => Promise.all([b, c].map((one) => on(one, 'SELECT pg_wal_replay_pause()')));
const resume = () => Promise.all([b, c].map((one) => on(one, 'SELECT pg_wal_replay_resume()')));
/** Whether each standby serves reads, in the order of their addresses. */
async function up(): Promise<string> {
  const text = await metricsText(replica);
  const of = (url: string) =>
    new RegExp(`^sluice_read_standby_up\\{standby="${new URL(url).host}"\\} (\\d)$`, 'm').exec(text)?.[1];
  return [wire.url, c.postgres.url].map(of).join('');
}

async function add(key: string, id: string = randomUUID(), options: CallOptions = {}): Promise<string> {
  const body = { id, type: 'balance/add', key, payload: 1 };
  const { status } = await replica.call('POST', '/v1/messages', { body, ...options });
  expect(status).toBe(202);
  return id;
}

const read = (path: string, headers: Record<string, string> = {}) =>
  replica.call('GET', `/v1/balances/${path}`, { headers });

/** A key with the balance 1 on every server. */
async function newKey(): Promise<string> {
  const key = randomUUID();
  await add(key);
  for (const one of [b, c])
    await until(async () => (await on(one, 'SELECT FROM tested.balance WHERE id = $1', [key])).length > 0);
  return key;
}

/** A key with the balance 1 whose reads go to that standby. */
async function keyAt(server: Server): Promise<string> {
  for (;;) {
    const key = await newKey();
    if ((await read(key)).body.port === portOf(server)) return key;
  }
}

const wake = (server: Server) =>
  on(server, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'`);

/** A read that does not end, on that standby. */
async function hangingAt(server: Server) {
  const key = await keyAt(server);
  const running = `SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'`;
  // Another query string can lead to the other standby.
  for (let n = 1; ; n++) {
    const response = read(`${key}?hang=${n}`);
    const other = server === b ? c : b;
    const found = await until(async () => {
      for (const at of [server, other]) if ((await on(at, running)).length > 0) return { at };
      return undefined;
    });
    if (found!.at === server) return { key, response };
    await wake(other);
    await response;
  }
}

const outcome = (name: string) => `read_standby_requests_total{outcome="${name}"}`;

describe('reads with two standbys', () => {
  beforeAll(async () => {
    await open();
    replica = await start(primary.postgres.url);
  });
  afterAll(close);
  beforeEach(() => until(async () => (await up()) === '11'));

  it('are spread over both; the same read goes to the same one, so that its ETag stays valid', async () => {
    const keys = await Promise.all(Array.from({ length: 12 }, newKey));
    const first = await Promise.all(keys.map((key) => read(key)));
    expect(new Set(first.map(({ body }) => body.port))).toEqual(new Set([portOf(b), portOf(c)]));
    for (const [index, { body, headers }] of first.entries()) {
      expect((await read(keys[index]!)).body).toEqual(body);
      const again = await read(keys[index]!, { 'if-none-match': headers.get('etag')! });
      expect(again.status).toBe(304);
    }
  });

  it('include what the caller has written', async () => {
    const key = randomUUID();
    const ports = new Set<number>();
    let amount = 0;
    await until(async () => {
      const { body } = await read(`${key}?after=${await add(key)}&wait=30s`);
      amount += 1;
      expect(body.amount).toBe(amount);
      ports.add(body.port);
      return amount >= 20 && ports.size > 0 && !(ports.size === 1 && ports.has(portOf(primary)));
    });
    expect((await read(`${key}?after=nothing`)).status).toBe(404);
  });

  it('with ?after= come from the primary while the standbys do not have the message; ?pending=true always', async () => {
    const key = await newKey();
    await pause();
    try {
      const id = await add(key);
      const [behind] = await metricIncreases(replica, [outcome('behind')], async () => {
        const { body } = await read(`${key}?after=${id}`);
        expect(body).toEqual({ amount: 2, port: portOf(primary) });
      });
      expect(behind).toBe(1);
      const { body } = await read(key);
      expect(body.amount).toBe([b, c].map(portOf).includes(body.port) ? 1 : 2);
      const [served] = await metricIncreases(replica, [outcome('served')], async () => {
        expect((await read(`${key}?pending=true`)).body).toEqual({ amount: 2, port: portOf(primary) });
      });
      expect(served).toBe(0);
    } finally {
      await resume();
    }
  });

  it('do not take the message of another source for the one of the caller', async () => {
    const key = randomUUID();
    const id = await add(key, randomUUID(), { key: PRODUCE_KEY });
    for (const one of [b, c])
      await until(async () => (await on(one, 'SELECT FROM tested.balance WHERE id = $1', [key])).length > 0);
    await pause();
    try {
      await add(key, id);
      expect((await read(`${key}?after=${id}`)).body).toEqual({ amount: 2, port: portOf(primary) });
    } finally {
      await resume();
    }
  });

  it('leave out a standby that lags, visibly, until it has caught up; the replica stays ready', async () => {
    const key = await newKey();
    await pause();
    try {
      await add(key);
      const lagging = /^sluice_read_standby_lag_seconds\S+ [1-9]/gm;
      await until(
        async () => (await metricsText(replica)).match(lagging)?.length === 2 && (await up()) === '00',
      );
      const leftOut = replica.lines.filter((line) => line.includes('it is more than 1s behind'));
      expect(leftOut).toEqual([
        expect.stringContaining('database.standby-left-out'),
        expect.stringContaining('database.standby-left-out'),
      ]);
      expect((await replica.call('GET', '/readyz')).status).toBe(200);
      const [unused] = await metricIncreases(replica, [outcome('none-usable')], async () => {
        await until(async () => (await read(key)).body.amount === 2);
        expect((await read(key)).body.port).toBe(portOf(primary));
      });
      expect(unused).toBeGreaterThan(0);
    } finally {
      await resume();
    }
    await until(async () => (await up()) === '11');
    expect((await read(key)).body.port).not.toBe(portOf(primary));
  });

  it('need no rights that a role does not have by default', async () => {
    await on(primary, `CREATE ROLE plain LOGIN PASSWORD 'plain'`);
    const login = { username: 'plain', password: 'plain' };
    const asPlain = Object.assign(new URL(primary.postgres.url), login).href;
    const { rows } = await withClient(asPlain, (plain) => plain.query(PRIMARY_POSITION));
    expect(rows).toEqual([
      { position: expect.anything(), branch: expect.stringMatching(/^\d+\/[0-9A-F]{8}$/) },
    ]);
  });

  it('are repeated on the primary if the standby does not have the column yet', async () => {
    const key = await newKey();
    await pause();
    try {
      await on(primary, 'ALTER TABLE tested.balance ADD COLUMN late int NOT NULL DEFAULT 7');
      expect((await read(`${key}?column=late`)).body).toEqual({ amount: 7, port: portOf(primary) });
    } finally {
      await resume();
    }
  });

  it('are repeated on the primary if a replayed change cancels them', async () => {
    const { key, response } = await hangingAt(c);
    await on(c, 'ALTER SYSTEM SET max_standby_streaming_delay = 0');
    await on(c, 'SELECT pg_reload_conf()');
    await on(primary, 'ALTER TABLE tested.balance ADD COLUMN conflict int');
    expect((await response).body).toEqual({ amount: 1, port: portOf(primary) });
    await until(async () => (await read(key)).body.port === portOf(c));
  });

  it('are repeated on the primary if the standby does not reply any more, which is then left out', async () => {
    const { key, response } = await hangingAt(b);
    wire.blackHole();
    const [failed] = await metricIncreases(replica, [outcome('failed')], async () => {
      expect((await response).body).toEqual({ amount: 1, port: portOf(primary) });
    });
    expect(failed).toBe(1);
    wire.closeBlackHoles();
    // Otherwise its snapshot would delay the replay.
    await wake(b);
    await until(async () => (await read(key)).body.port === portOf(b));
  });

  it('go to no server but the one that was judged, wherever its name leads', async () => {
    const options = connectionOptions(wire.url, replica.settings, 'test');
    const [row] = await on<{ run: string }>(
      b,
      'SELECT extract(epoch FROM pg_postmaster_start_time())::text AS run',
    );
    const judged = new StandbyRun('b', row!.run, options);
    try {
      (await judged.pool.connect()).release(true);
      wire.switchTo(c.postgres.url);
      await expect(judged.pool.connect()).rejects.toMatchObject({ code: '08004' });
    } finally {
      wire.switchTo(b.postgres.url);
      await judged.pool.end();
    }
  });

  it('are repeated on the primary if the standby is killed, and return to it when it was started again', async () => {
    const { key, response } = await hangingAt(b);
    await b.crash();
    expect((await response).body).toEqual({ amount: 1, port: portOf(primary) });
    await until(async () => (await up()) === '01');
    await b.postgres.stop();
    b = await b.restart();
    wire.switchTo(b.postgres.url);
    await until(async () => (await read(key)).body.port === portOf(b));
  });

  it('are what the doctor looks at', async () => {
    const found = await checkStandbys(hostsOf(wire.url, primary.postgres.url), primary.postgres.url);
    expect(found).toEqual([
      expect.objectContaining({ verdict: 'ok', found: expect.stringContaining('serves reads') }),
      expect.objectContaining({ verdict: 'warning', found: 'it is not a standby' }),
    ]);
    const [away] = await checkStandbys(NOWHERE, primary.postgres.url);
    expect(away).toMatchObject({ verdict: 'warning', found: expect.stringContaining('cannot reach') });
  });

  it('leave out a server that was promoted: what it has is no longer what the primary has', async () => {
    const key = await keyAt(b);
    await b.promote();
    await until(async () => (await up()) === '01');
    await until(() => replica.lines.some((line) => line.includes('it is not a standby')));
    expect((await read(key)).body.port).toBe(portOf(c));
  });
});

describe('reads after a failover that lost what another standby has', () => {
  beforeAll(async () => {
    await open();
    replica = await start(hostsOf(primary.postgres.url, b.postgres.url));
  });
  afterAll(close);

  it('are not served by that standby', async () => {
    await until(async () => (await up()) === '11');
    const key = await keyAt(c);
    await b.postgres.stop();
    await add(key);
    await until(async () => (await read(key)).body.amount === 2);
    expect((await read(key)).body.port).toBe(portOf(c));

    await primary.crash();
    expect((await read(key)).body).toEqual({ amount: 2, port: portOf(c) });
    b = await b.restart();
    wire.switchTo(b.postgres.url);
    await b.promote();
    await until(async () => (await read(key)).body.amount === 1);
    expect((await read(key)).body).toEqual({ amount: 1, port: portOf(b) });
    expect(await up()).toBe('00');
    await until(() => replica.lines.join('').includes('it is behind, or follows another primary'));
    expect(await up()).toBe('00');
  });
});
