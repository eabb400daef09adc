import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Database } from '../../src/database/database.ts';
import { Activity } from '../../src/telemetry/activity.ts';
import type { WindowRow } from '../../src/upkeep/activity/activity-store.ts';
import { Rates } from '../../src/upkeep/activity/rates.ts';
import { Heartbeat } from '../../src/upkeep/replicas/heartbeat.ts';
import { ReplicaIdentity } from '../../src/upkeep/replicas/replica-identity.ts';
import { Retention } from '../../src/upkeep/retention/retention.ts';
import { READ_KEY, type TestApp } from '../support/app.ts';
import { GroupClient } from '../support/group-client.ts';
import { status } from '../support/receiver.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

let cluster: TestCluster;
let one: TestApp;
let other: TestApp;

beforeAll(async () => {
  cluster = await TestCluster.open({}, 2);
  [one, other] = cluster.replicas as [TestApp, TestApp];
});
afterAll(() => cluster.close());

const sum = (points: (number | null)[]) => points.reduce<number>((total, value) => total + (value ?? 0), 0);

// biome-ignore lint/suspicious/noExplicitAny: a response
async function activityOnce(replica: TestApp, that: (activity: any) => boolean, query = '') {
  return until(async () => {
    const { body } = await replica.call('GET', `/v1/activity${query}`, { key: READ_KEY });
    return that(body) ? body : undefined;
  }, 40_000);
}

describe('the replicas', () => {
  it('are listed with their roles, version and lanes, and leave the list when they stop', async () => {
    const worker = await cluster.start({ ROLES: 'inbox,upkeep' });
    const { id } = worker.app.nest.get(ReplicaIdentity);
    const list = async () => (await one.call('GET', '/v1/replicas', { key: READ_KEY })).body;
    const found = await until(async () => {
      const { items } = await list();
      return items.length === 3 ? items : undefined;
    });
    expect(found.find((item: { id: string }) => item.id === id)).toEqual({
      id,
      roles: ['inbox', 'upkeep'],
      version: expect.stringMatching(/^\d/),
      host: expect.stringMatching(/\S/),
      startedAt: expect.stringMatching(/Z$/),
      seenAt: expect.stringMatching(/Z$/),
      alive: true,
      lanes: { inbox: expect.any(Number), outbox: expect.any(Number) },
    });
    await cluster.stop(worker);
    expect((await list()).items.map((item: { id: string }) => item.id)).not.toContain(id);
    expect((await list()).next).toBeNull();
  });

  it('are no longer alive when they are silent for 20 s, and forgotten after an hour', async () => {
    const { database } = cluster;
    const insert = (id: string, ago: string) =>
      database.query(
        `INSERT INTO replica (id, process, host, roles, version, seen_at) VALUES ($1, $1, 'h', '{api}', '1', now() - $2::interval)`,
        [id, ago],
      );
    await insert('silent', '21 seconds');
    await insert('forgotten', '61 minutes');
    await one.app.nest.get(Heartbeat).beat();
    const { items } = (await other.call('GET', '/v1/replicas')).body;
    const alive = Object.fromEntries(
      items.map((item: { id: string; alive: boolean }) => [item.id, item.alive]),
    );
    expect(alive).toMatchObject({ silent: false });
    expect(alive).not.toHaveProperty('forgotten');
    // The living first.
    expect(items.at(-1).id).toBe('silent');
  });
});

describe('the activity', () => {
  it('adds up what all replicas did, whichever is asked', async () => {
    const groups = new GroupClient(one);
    await cluster.listen('good');
    await cluster.listen('bad', { terminalStatuses: [400] }, status(400));
    const { topic, group } = await groups.create();
    for (const replica of [one, other])
      for (let n = 0; n < 5; n++)
        await replica.call('POST', '/v1/messages', { body: { type: 'good/x', key: `${n}`, payload: n } });
    await cluster.post({ type: 'bad/x' });
    await groups.post(topic, 4);
    const member = await groups.join(group);
    const [batch] = (await groups.poll(group, member)).batches;
    await groups.commit(group, member, batch!, batch!.to);

    for (const replica of [one, other]) {
      const seen = await activityOnce(
        replica,
        ({ inbox, listeners, groups: of }) =>
          sum(inbox.accepted) >= 15 &&
          sum(inbox.applied) >= 15 &&
          sum(listeners[0]?.failed ?? []) >= 1 &&
          sum(listeners[1]?.delivered ?? []) >= 10 &&
          sum(of[0]?.committed ?? []) >= 4,
        '?range=1m&step=10s',
      );
      expect(seen.times).toHaveLength(6);
      expect(seen.stepSeconds).toBe(10);
      expect(Date.parse(seen.to) - Date.parse(seen.from)).toBe(60_000);
      expect(seen.times[0]).toBe(seen.from);
      expect(sum(seen.inbox.accepted)).toBe(15);
      expect(seen.listeners.map(({ name }: { name: string }) => name)).toEqual(['bad', 'good']);
      expect(sum(seen.listeners[1].delivered)).toBe(10);
      expect(Math.max(...seen.listeners[1].p95Ms)).toBeGreaterThan(0);
      expect(seen.groups).toMatchObject([{ name: group }]);
    }
  });

  it('has null where no replica reported, and 0 where nothing happened', async () => {
    const { database } = cluster;
    await database.query('DELETE FROM activity');
    await database.query(`
      INSERT INTO activity (replica, at, until, accepted)
      SELECT 'r', slot - interval '200 seconds', slot - interval '100 seconds', 0
      FROM (SELECT date_bin('10 seconds', now(), 'epoch') AS slot) AS now
      UNION ALL
      SELECT 'r', slot - interval '100 seconds', slot - interval '90 seconds', 7
      FROM (SELECT date_bin('10 seconds', now(), 'epoch') AS slot) AS now`);
    const seen = await activityOnce(one, ({ inbox }) => sum(inbox.accepted) === 7, '?range=5m&step=10s');
    const { accepted } = seen.inbox;
    const at = accepted.indexOf(7);
    expect(accepted.slice(at - 10, at)).toEqual(Array.from({ length: 10 }, () => 0));
    expect(accepted[at - 11]).toBeNull();
    expect(accepted.slice(at + 1, at + 3)).toEqual([null, null]);
  });

  it('writes one row for a stretch in which nothing happens', async () => {
    const { database } = cluster;
    const own = one.app.nest.get(ReplicaIdentity).id;
    const rows = () =>
      database.query<{ seconds: number }>(
        `SELECT extract(epoch FROM until - at)::int AS seconds FROM activity WHERE replica = $1 AND accepted = 0 ORDER BY id DESC`,
        [own],
      );
    await until(async () => ((await rows())[0]?.seconds ?? 0) >= 20);
    expect((await rows()).length).toBeLessThanOrEqual(2);
  });

  it('is refused for other ranges and steps', async () => {
    const refused = ['range=59s', 'range=25h', 'step=5s', 'step=2h', 'step=15s', 'range=24h&step=10s', 'x=1'];
    for (const query of refused) {
      const { status } = await one.call('GET', `/v1/activity?${query}`);
      expect([query, status]).toEqual([query, 422]);
    }
    const most = await one.call('GET', '/v1/activity?range=1h&step=10s');
    expect([most.status, most.body.times.length]).toEqual([200, 360]);
  });

  it('is kept for 24 hours', async () => {
    const { database } = cluster;
    await database.query(`
      INSERT INTO activity (replica, at, until) VALUES
      ('old', now() - interval '25 hours', now() - interval '24 hours 1 minute'),
      ('kept', now() - interval '25 hours', now() - interval '23 hours 59 minutes')`);
    await one.app.nest.get(Retention).sweep();
    const left = await database.query(`SELECT replica FROM activity WHERE replica IN ('old', 'kept')`);
    expect(left).toEqual([{ replica: 'kept' }]);
  });

  it('has rates of the last 30 s over all replicas, with what this one has counted since', async () => {
    const { database } = cluster;
    await database.query('DELETE FROM activity');
    await database.query(
      `INSERT INTO activity (replica, at, until, accepted, listeners)
       SELECT 'another', slot - interval '20 seconds', slot - interval '10 seconds', 300,
              '{"l": {"delivered": 30, "failed": 10, "durations": {"10": 39, "20": 1}}}'
       FROM (SELECT date_bin('10 seconds', now(), 'epoch') AS slot) AS now`,
    );
    const rates = one.app.nest.get(Rates);
    const ratesNow = async () => {
      const [rows] = await one.app.nest.get(Database).inOneRoundTrip(rates.due());
      return rates.now(rows as WindowRow[] | undefined);
    };
    const seen = await until(async () => {
      const now = await ratesNow();
      return now.acceptedPerSecond >= 10 ? now : undefined;
    });
    expect(seen).toMatchObject({
      windowSeconds: 30,
      acceptedPerSecond: 10,
      listeners: [
        { name: 'l', deliveredPerSecond: 1, failedPerSecond: 0.33, successRatio: 0.75, p95Ms: 6.2 },
      ],
      groups: [],
    });
    const activity = one.app.nest.get(Activity);
    for (let n = 0; n < 400; n++) activity.accepted();
    expect((await ratesNow()).acceptedPerSecond).toBeGreaterThan(15);
  });
});
