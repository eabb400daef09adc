import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it } from '@jest/globals';
import { leasedForAnHour } from '../../../test/support/leased-lane.ts';
import { metricIncreases } from '../../../test/support/metrics.ts';
import { sharedReplicaBehindProxy } from '../../../test/support/shared-replica.ts';
import { until } from '../../../test/support/until.ts';
import type { Listener } from '../../listeners/listener.ts';
import type { LeasedLane } from '../claim/leased-lane.ts';
import { LeasedLanes } from '../claim/leased-lanes.ts';
import type { ClaimedDelivery } from '../claim/outbox-queue.ts';
import { OutboxStore } from '../outbox-store.ts';
import type { Outcome } from '../send/outcome.ts';
import { ResultWriter } from './result-writer.ts';

const LOSSES = ['leases_lost_total{stage="outbox"}', 'fenced_writes_total{stage="outbox"}'];

/** Without the outbox role: only the test leases lanes. */
const { database, proxy, replica } = sharedReplicaBehindProxy({ ROLES: 'api' });
afterEach(() => database.query(`TRUNCATE outbox, attempt, hold; DELETE FROM lane WHERE queue = 'outbox'`));

async function leased(lane: number): Promise<LeasedLane> {
  const token = randomUUID();
  await database.query(
    `INSERT INTO lane (queue, lane, token, leased_until) VALUES ('outbox', $1, $2, now() + interval '1 hour')`,
    [lane, token],
  );
  const one = leasedForAnHour(lane, token);
  replica.app.nest.get(LeasedLanes).add(one);
  return one;
}

async function claimed({ lane }: LeasedLane): Promise<ClaimedDelivery> {
  const [row] = await database.query<{ position: string }>(
    `INSERT INTO outbox (listener, lane, message, key, sequence, status, attempt)
     VALUES (1, $1, 1, 'k', 1, 'processing', 1) RETURNING *`,
    [lane],
  );
  return { ...row, position: Number(row!.position), age_ms: 0 } as unknown as ClaimedDelivery;
}

/** Settles one delivery that was sent with that outcome, and releases its lane. */
async function settle(
  lane: LeasedLane,
  outcome: Outcome,
  { release = true, delivery }: { release?: boolean; delivery?: ClaimedDelivery } = {},
): Promise<void> {
  const writer = replica.app.nest.get(ResultWriter);
  const status = outcome.kind === 'delivered' ? 200 : 500;
  writer.add({
    kind: 'sent',
    leased: lane,
    delivery: delivery ?? (await claimed(lane)),
    listener: { name: 'l', onDead: 'skip' } as Listener,
    callResult: { kind: 'responded', status, excerpt: '', durationMs: 7 },
    outcome,
    atMs: performance.now(),
  });
  await writer.end(lane, release);
  replica.app.nest.get(LeasedLanes).drop(lane);
}

const delivered: Outcome = { kind: 'delivered' };
const retry: Outcome = {
  kind: 'retry',
  afterMs: 1_000,
  counted: true,
  overloaded: false,
  reason: 'responded 500',
};
const attemptsRecorded = () => database.query('SELECT attempt, status, error FROM attempt');
const failures = () => replica.lines.filter((line) => line.includes('outbox.settle-failed')).length;

describe('a delivery that was sent, when the reply to COMMIT is lost', () => {
  describe.each([
    ['delivered', delivered, 'finished', []],
    ['failed', retry, 'held', [{ attempt: 1, status: 500, error: 'responded 500' }]],
  ])('%s', (_, outcome, status, attempts) => {
    it.each([
      ['is not recorded twice when it was committed, nor recorded as sent on a lost lane', 'after'],
      ['is written again when it was not committed', 'before'],
    ] as const)('%s', async (_title, cut) => {
      const lane = await leased(256);
      const before = failures();
      const names = [...LOSSES, `deliveries_attempted_total{listener="l",outcome="${outcome.kind}"}`];
      const growth = await metricIncreases(replica, names, () => {
        proxy.cutAtCommit(cut);
        return settle(lane, outcome);
      });
      expect(failures() - before).toBe(1);
      expect(growth).toEqual([0, 0, 1]);
      expect(await database.query('SELECT status, attempt FROM outbox')).toEqual([{ status, attempt: 1 }]);
      expect(await attemptsRecorded()).toEqual(attempts);
    });
  });

  it('is recorded as sent on a lost lane when another replica owns the lane', async () => {
    const lane = await leased(256);
    await database.query('UPDATE lane SET token = gen_random_uuid() WHERE lane = 256');
    expect(await metricIncreases(replica, LOSSES, () => settle(lane, delivered))).toEqual([1, 1]);
    const error = 'responded 200; its replica had lost the lane by then';
    expect(await attemptsRecorded()).toEqual([{ attempt: 1, status: 200, error }]);
  });

  it('is recorded so once the database is back', async () => {
    const lane = await leased(256);
    await database.query(`UPDATE lane SET token = gen_random_uuid() WHERE lane = 256;
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE 'shutting down' USING ERRCODE = '57P03'; END $$;
      CREATE TRIGGER refuse BEFORE INSERT ON attempt FOR EACH ROW EXECUTE FUNCTION refuse()`);
    const settling = settle(lane, delivered);
    try {
      await until(() => replica.lines.filter((line) => line.includes('outbox.record-failed')).length > 3);
    } finally {
      await database.query('DROP FUNCTION refuse CASCADE');
    }
    await settling;
    expect(await attemptsRecorded()).toHaveLength(1);
  });

  it('is recorded so once, if the first record had an unknown outcome', async () => {
    const delivery = await claimed(await leased(256));
    const store = replica.app.nest.get(OutboxStore);
    const attempt = { delivery, status: 200, error: 'lost', excerpt: '', durationMs: 7 };
    for (const repeated of [false, true]) await store.recordLost([attempt], repeated);
    expect(await attemptsRecorded()).toHaveLength(1);
    await store.recordLost([{ ...attempt, durationMs: 8 }], true);
    expect(await attemptsRecorded()).toHaveLength(2);
  });

  it('is recorded so, too, when nothing was written and the lane was taken over meanwhile', async () => {
    const lane = await leased(256);
    await database.query(`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$;
      CREATE TRIGGER refuse BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION refuse()`);
    const before = failures();
    const settling = settle(lane, delivered);
    try {
      await until(() => failures() > before);
      await database.query('UPDATE lane SET token = NULL WHERE lane = 256');
    } finally {
      await database.query('DROP FUNCTION refuse CASCADE');
    }
    await settling;
    expect(await attemptsRecorded()).toHaveLength(1);
  });

  it.each([
    ['delivered', delivered, []],
    ['failed', retry, [{ attempt: 1, status: 500, error: 'responded 500' }]],
  ])(
    'is not recorded as sent on a lost lane when it was committed and another replica owns the lane: %s',
    async (_, outcome, attempts) => {
      const lane = await leased(256);
      await database.query(`
      CREATE FUNCTION pass_on() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.token = gen_random_uuid(); RETURN NEW; END $$;
      CREATE TRIGGER pass_on BEFORE UPDATE ON lane FOR EACH ROW WHEN (NEW.token IS NULL) EXECUTE FUNCTION pass_on()`);
      try {
        const names = [...LOSSES, `deliveries_attempted_total{listener="l",outcome="${outcome.kind}"}`];
        const growth = await metricIncreases(replica, names, () => {
          proxy.cutAtCommit('after');
          return settle(lane, outcome);
        });
        expect(growth).toEqual([0, 0, 1]);
        expect(await attemptsRecorded()).toEqual(attempts);
      } finally {
        await database.query('DROP FUNCTION pass_on CASCADE');
      }
    },
  );

  it('is recorded as sent on a lost lane when it was not committed and another replica delivered it meanwhile', async () => {
    const lane = await leased(256);
    const delivery = await claimed(lane);
    const before = failures();
    proxy.cutAtCommit('before');
    const settling = settle(lane, delivered, { delivery });
    await until(() => failures() > before);
    await database.query(`UPDATE lane SET token = gen_random_uuid() WHERE lane = 256;
      UPDATE outbox SET status = 'finished', settled_at = now(), answered = 200, duration_ms = 7`);
    await settling;
    const error = 'responded 200; its replica had lost the lane by then';
    expect(await attemptsRecorded()).toEqual([{ attempt: 1, status: 200, error }]);
  });
});

describe('a delivery that was sent, when the database has lost the claim but not the lease', () => {
  it('is recorded as such: it is sent again', async () => {
    const lane = await leased(256);
    const delivery = await claimed(lane);
    await database.query(`UPDATE outbox SET status = 'pending', attempt = 0`);
    await settle(lane, delivered, { delivery, release: false });
    expect(await database.query('SELECT status, attempt FROM outbox')).toEqual([
      { status: 'pending', attempt: 0 },
    ]);
    const error = 'responded 200; its claim was gone by then';
    expect(await attemptsRecorded()).toEqual([{ attempt: 1, status: 200, error }]);
  });

  it('is not recorded as such when it was only written twice', async () => {
    const lane = await leased(256);
    proxy.cutAtCommit('after');
    await settle(lane, delivered, { release: false });
    expect(await attemptsRecorded()).toEqual([]);
    expect(await database.query('SELECT status, attempt FROM outbox')).toEqual([
      { status: 'finished', attempt: 1 },
    ]);
  });

  it('is not recorded when it was removed meanwhile', async () => {
    const lane = await leased(256);
    const delivery = await claimed(lane);
    await database.query('DELETE FROM outbox');
    await settle(lane, delivered, { delivery });
    expect(await attemptsRecorded()).toEqual([]);
  });
});
