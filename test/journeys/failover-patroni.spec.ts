import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { loadSettings } from '../../src/config/settings.ts';
import { migrate } from '../../src/database/migrate.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { withClient } from '../support/client.ts';
import { countingReadModel } from '../support/counting-read-model.ts';
import type { TestDatabase } from '../support/database.ts';
import { hasPatroni, kill, PatroniCluster } from '../support/patroni.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { SCHEMA } from '../support/schema.ts';
import { waitUntilKnown } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

/** Ten take three to five minutes: PATRONI_FAILOVERS=10 npm run jest -- test/journeys/failover-patroni.spec.ts */
const FAILOVERS = Number(process.env.PATRONI_FAILOVERS ?? 2);
const WAIT_MS = 180_000;
const PRODUCERS = 8;

const isMove = (line: string) => line.includes('database.primary-moved');

(hasPatroni('failover by Patroni') ? describe : describe.skip)('failovers by Patroni', () => {
  let cluster: PatroniCluster;
  let replica: TestApp;
  let receiver: Receiver;

  beforeAll(async () => {
    cluster = await PatroniCluster.start();
    const leader = await cluster.isWhole();
    await migrate(cluster.urlOf(leader), loadSettings({}), [...SCHEMA, countingReadModel]);
    replica = await startApp(
      { url: cluster.url } as TestDatabase,
      { OUTBOX_POLL: '100ms', INBOX_POLL: '100ms', EGRESS_ALLOW: '127.0.0.0/8' },
      [countingReadModel],
    );
    receiver = await startReceiver();
    await replica.call('PUT', '/v1/listeners/l', { body: { types: ['counted/*'], url: receiver.url } });
    await waitUntilKnown(replica, 'l');
  }, 2 * WAIT_MS);
  afterAll(async () => {
    await replica?.close();
    await receiver?.close();
    await cluster?.stop();
  }, WAIT_MS);

  const on = async <Row>(name: string, sql: string): Promise<Row[]> =>
    withClient(cluster.urlOf(name), async (client) => (await client.query(sql)).rows as Row[]);

  /** Lets the leader write what no standby gets, so that it has to be rewound when it comes back. */
  const divergeFrom = async (leader: string): Promise<number[]> => {
    const standbys = (await cluster.members()).filter(({ name }) => name !== leader);
    const receivers = await Promise.all(
      standbys.map(({ name }) => on<{ pid: number }>(name, 'SELECT pid FROM pg_stat_wal_receiver')),
    );
    const pids = receivers.flat().map(({ pid }) => pid);
    for (const pid of pids) kill(pid, 'SIGSTOP');
    const waiting = `SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'`;
    await until(async () => (await on(leader, waiting)).length > 0, WAIT_MS);
    return pids;
  };

  it(
    `lose nothing that was accepted (${FAILOVERS} of them), and the old primary comes back as a standby`,
    async () => {
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
          await until(post, WAIT_MS);
          accepted.push(body.id);
        }
      };
      const producing = Promise.all(Array.from({ length: PRODUCERS }, (_, index) => produce(index)));
      for (let failover = 0; failover < FAILOVERS; failover++) {
        const count = accepted.length;
        await until(() => accepted.length > count + 100, WAIT_MS);
        const leader = await cluster.isWhole();
        const stopped = await divergeFrom(leader);
        const isLost = failover % 2 === 1;
        if (isLost) await cluster.loseMachine(leader);
        else cluster.crash(leader);
        const killedAt = performance.now();
        for (const pid of stopped) kill(pid, 'SIGKILL');
        const before = accepted.length;
        const moves = replica.lines.filter(isMove).length;
        const next = await until(
          async () =>
            (await cluster.members()).find((one) => one.role === 'leader' && one.name !== leader)?.name,
          WAIT_MS,
        );
        await until(
          async () => (await on<{ r: boolean }>(next!, 'SELECT pg_is_in_recovery() AS r'))[0]?.r === false,
        );
        const promotedAt = performance.now();
        await until(() => replica.lines.filter(isMove).length > moves);
        const followed = performance.now() - promotedAt;
        await until(() => accepted.length > before + PRODUCERS, WAIT_MS);
        const [lead, follow] = [promotedAt - killedAt, performance.now() - promotedAt];
        if (isLost) cluster.startMember(leader);
        await cluster.isWhole();
        expect(await on(leader, 'SELECT pg_is_in_recovery() AS r')).toEqual([{ r: true }]);
        const times = [lead, followed, follow].map(Math.round);
        process.stdout.write(
          `${isLost ? 'machine lost' : 'server killed'}: primary after ${times[0]} ms, followed within ${times[1]} ms, messages accepted after ${times[2]} ms\n`,
        );
      }
      over = true;
      await producing;
      const leader = await cluster.isWhole();
      const open = `SELECT FROM inbox WHERE settled_at IS NULL UNION ALL SELECT FROM outbox WHERE settled_at IS NULL LIMIT 1`;
      await until(async () => (await on(leader, open)).length === 0, WAIT_MS);
      const stored = await on<{ id: string; status: string; times: number; delivered: number }>(
        leader,
        `SELECT id, status, (SELECT count(*) FROM tested.applied WHERE applied.id = inbox.id)::int AS times,
                (SELECT count(*) FROM outbox WHERE message = inbox.position AND outbox.status = 'finished')::int AS delivered
         FROM inbox`,
      );
      const done = stored.filter(
        (row) => row.status === 'finished' && row.times === 1 && row.delivered === 1,
      );
      expect(done).toHaveLength(stored.length);
      const ids = new Set(done.map(({ id }) => id));
      expect(accepted.filter((id) => !ids.has(id))).toEqual([]);
      const received = new Set(receiver.received.map(({ body }) => body.id));
      expect(accepted.filter((id) => !received.has(id))).toEqual([]);
      const rewinds = ['a', 'b', 'c'].flatMap((name) => [
        ...cluster.logOf(name).matchAll(/pg_rewind exit code=0/g),
      ]);
      expect(rewinds.length).toBeGreaterThan(0);
      process.stdout.write(`${accepted.length} accepted, 0 lost; pg_rewind ran ${rewinds.length} times\n`);
    },
    (FAILOVERS + 2) * WAIT_MS,
  );
});
