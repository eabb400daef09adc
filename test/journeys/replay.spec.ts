import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ObservationStore } from '../../src/upkeep/observation/observation-store.ts';
import { Retention } from '../../src/upkeep/retention/retention.ts';
import { hang, ok, type Receiver, status } from '../support/receiver.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.open({ DRAIN_TIMEOUT: '1s' }, 2);
});
afterEach(() => cluster.clear());
afterAll(() => cluster.close());

const LONG_AGO = '2020-01-01T00:00:00Z';

async function replay(listener: string, filter: Record<string, unknown> = {}) {
  const body = { since: LONG_AGO, ...filter };
  const response = await cluster.call('POST', `/v1/listeners/${listener}/replay`, body);
  expect([response.status, response.body]).toEqual([202, expect.anything()]);
  return response.body as { id: string; matched: number; selecting: boolean; location: string };
}

const progress = async ({ location }: { location: string }) => (await cluster.call('GET', location)).body;

async function finished(started: { location: string }) {
  await until(async () => (await progress(started)).status === 'finished');
  return progress(started);
}

/** Sends all of them once: `a1 b1 a2` are messages of keys a and b. */
async function sent(
  listener: string,
  names: string,
  types: (n: number) => string = () => 'x',
  answering = ok,
): Promise<Receiver> {
  const receiver = await cluster.listen(listener);
  receiver.respond = answering;
  const list = names.split(' ');
  await cluster.post(
    ...list.map((name, n) => ({ type: `${listener}/${types(n)}`, key: name[0]!, payload: name })),
  );
  await until(async () => (await cluster.counts(listener)).finished === list.length);
  receiver.received.splice(0);
  return receiver;
}

const data = ({ received }: Receiver) => received.map(({ body }) => body.data as string);
const ofKey = (receiver: Receiver, key: string) => data(receiver).filter((name) => name.startsWith(key));

describe('replay', () => {
  it('sends everything again, each key in order, with the same ids, and records the reason', async () => {
    const receiver = await sent('all', 'a1 b1 a2 b2 a3', () => 'x', status(201));
    receiver.respond = status(200);
    const started = await replay('all');
    expect(await finished(started)).toMatchObject({ matched: 5, sent: 5, dead: 0, waiting: 0 });
    expect(ofKey(receiver, 'a')).toEqual(['a1', 'a2', 'a3']);
    expect(ofKey(receiver, 'b')).toEqual(['b1', 'b2']);
    const { items } = (await cluster.call('GET', '/v1/listeners/all/deliveries')).body;
    expect(new Set(receiver.received.map(({ headers }) => headers['webhook-id']))).toEqual(
      new Set(items.map(({ id }: { id: string }) => id)),
    );
    const [delivery] = await cluster.deliveries(items[0].message);
    expect(delivery!.attempts).toMatchObject([
      { error: `delivered; sent again by replay ${started.id}`, excerpt: 'response 201' },
      { error: null, excerpt: 'response 200' },
    ]);
  });

  it('finds deliveries of a time span even if long transactions put their positions out of order', async () => {
    await cluster.listen('mixed');
    await cluster.post({ type: 'mixed-up' });
    await cluster.call('POST', '/v1/listeners/mixed/pause');
    // Started one after the other, a minute each, with positions assigned up to 50 minutes later.
    await cluster.database.query(
      `INSERT INTO outbox (listener, lane, message, key, sequence, status, settled_at, created_at)
       SELECT $1, $1 * 256, (SELECT max(position) FROM inbox), 'mixed', 1, 'finished', now(),
              timestamptz '2025-01-01T00:00:00Z' + n * interval '1 minute'
       FROM generate_series(0, 999) AS n ORDER BY n + 25 * (1 + sin(n))`,
      [await cluster.numberOf('mixed')],
    );
    for (const [since, until, count] of [
      ['2025-01-01T05:00:00Z', '2025-01-01T05:01:00Z', 1],
      ['2025-01-01T05:00:00Z', '2025-01-01T07:00:00Z', 120],
      ['2025-01-01T00:00:00Z', '2025-01-01T00:30:00Z', 30],
      ['2025-01-01T16:00:00Z', '2025-01-02T00:00:00Z', 40],
      ['2024-01-01T00:00:00Z', '2025-01-01T00:00:00Z', 0],
    ] as const)
      expect([since, (await replay('mixed', { since, until })).matched]).toEqual([since, count]);
    expect(await replay('mixed', { since: '2025-01-01T00:00:00Z' })).toMatchObject({ matched: 1_000 });
  });

  it('applies the filter: types, keys, time', async () => {
    const receiver = await sent('some', 'a1 b1 a2 b2', (n) => (n < 2 ? 'created' : 'removed'));
    await finished(await replay('some', { types: ['some/created'] }));
    expect(data(receiver).toSorted()).toEqual(['a1', 'b1']);
    receiver.received.splice(0);
    await finished(await replay('some', { types: ['*/rem*'], keys: ['b', 'c'] }));
    expect(data(receiver)).toEqual(['b2']);
    receiver.received.splice(0);
    expect(await replay('some', { until: LONG_AGO })).toMatchObject({ matched: 0 });
    expect(await replay('some', { since: '2100-01-01T00:00:00Z' })).toMatchObject({ matched: 0 });
    expect(await replay('some', { types: ['some_created', 'some%'] })).toMatchObject({ matched: 0 });
    await finished(await replay('some', { keys: ['a'] }));
    expect(data(receiver)).toEqual(['a1', 'a2']);
  });

  it('of failed deliveries sends only dead letters, from their first attempt on', async () => {
    const receiver = await cluster.listen('failed', { terminalStatuses: [400] });
    receiver.respond = (received, response, count) =>
      (received.body.data === 'bad' ? status(400) : ok)(received, response, count);
    const [bad, good] = await cluster.post(
      { type: 'failed/x', key: 'k', payload: 'bad' },
      { type: 'failed/x', key: 'k', payload: 'good' },
    );
    await cluster.delivery(bad, 'dead');
    await cluster.delivery(good, 'finished');
    receiver.received.splice(0);
    receiver.respond = ok;
    expect(await finished(await replay('failed', { onlyFailed: true }))).toMatchObject({
      matched: 1,
      sent: 1,
    });
    expect(data(receiver)).toEqual(['bad']);
    expect(await cluster.delivery(bad, 'finished')).toMatchObject({ attempt: 1, error: null });
  });

  it('of a dead letter that holds its key lets the key continue, in order', async () => {
    const receiver = await cluster.listen(
      'holding',
      { terminalStatuses: [400], onDead: 'hold' },
      status(400),
    );
    const ids = await cluster.post(...[1, 2, 3].map((n) => ({ type: 'holding/x', key: 'k', payload: n })));
    await cluster.delivery(ids[0], 'dead');
    await cluster.delivery(ids[2], 'held');
    receiver.received.splice(0);
    receiver.respond = ok;
    await finished(await replay('holding', { onlyFailed: true }));
    await cluster.delivery(ids[2], 'finished');
    expect(data(receiver)).toEqual([1, 2, 3]);
  });

  it('keeps live deliveries of a key behind it, while other keys do not wait', async () => {
    const receiver = await sent('live', 'a1 a2 a3');
    const held: (() => void)[] = [];
    receiver.respond = (received, response, count) =>
      received.body.data === 'a1'
        ? void held.push(() => ok(received, response, count))
        : ok(received, response, count);
    const started = await replay('live');
    await until(() => held.length === 1);
    await cluster.post(
      { type: 'live/x', key: 'a', payload: 'a4' },
      ...['b', 'c', 'd', 'e', 'f', 'g', 'h'].map((key) => ({ type: 'live/x', key, payload: `${key}1` })),
    );
    await until(() => data(receiver).length >= 5);
    expect(await progress(started)).toMatchObject({ status: 'running', matched: 3, sent: 0, waiting: 3 });
    expect(ofKey(receiver, 'a')).toEqual(['a1']);
    held[0]!();
    await finished(started);
    await until(() => data(receiver).length === 11);
    expect(ofKey(receiver, 'a')).toEqual(['a1', 'a2', 'a3', 'a4']);
  });

  it('is paced, and one whose listener is down does not block another', async () => {
    const keys = Array.from({ length: 700 }, (_, n) => n);
    const stuck = await cluster.listen('stuck', { timeout: '50s' });
    await cluster.post(...keys.map((n) => ({ type: 'stuck/x', key: `k-${n}` })));
    await until(async () => (await cluster.counts('stuck')).finished === 700);
    const fine = await sent('fine', 'a1 b1');
    stuck.respond = hang;
    const paced = await replay('stuck');
    expect(paced.matched).toBe(700);
    await finished(await replay('fine'));
    expect(data(fine).toSorted()).toEqual(['a1', 'b1']);
    const { held = 0, processing = 0, finished: left = 0 } = await cluster.counts('stuck');
    expect(held + processing).toBeGreaterThanOrEqual(16);
    // The max is in flight; the rest is not reopened.
    expect(left).toBeGreaterThan(50);
  });

  it('of many deliveries starts at once: the rest is selected in the background, and nothing is sent before', async () => {
    const receiver = await cluster.listen('many', { lanes: 4 });
    const names = Array.from({ length: 2_700 }, (_, n) => `${n % 100}:${n}`);
    for (let n = 0; n < names.length; n += 900)
      await cluster.post(
        ...names
          .slice(n, n + 900)
          .map((payload) => ({ type: 'many/x', key: payload.split(':')[0]!, payload })),
      );
    await until(async () => (await cluster.counts('many')).finished === names.length);
    receiver.received.splice(0);
    const held: (() => void)[] = [];
    receiver.respond = (received, response, count) =>
      received.body.data === 'late'
        ? void held.push(() => ok(received, response, count))
        : ok(received, response, count);
    const [late] = await cluster.post({ type: 'many/x', key: 'late', payload: 'late' });
    await until(() => held.length === 1);
    await cluster.database.query(`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF (SELECT select_from > (SELECT min(position) FROM outbox WHERE listener = replay.listener) FROM replay WHERE id = NEW.replay)
        THEN RAISE 'not now'; END IF; RETURN NEW; END $$;
      CREATE TRIGGER refuse BEFORE INSERT ON replay_delivery FOR EACH ROW EXECUTE FUNCTION refuse()`);
    let started: Awaited<ReturnType<typeof replay>>;
    try {
      started = await replay('many');
      expect(started).toMatchObject({ matched: 2_000, selecting: true });
      await until(() => cluster.replicas.some(({ lines }) => lines.some((line) => line.includes('not now'))));
      const selecting = { status: 'running', selecting: true, matched: 2_000, sent: 0, waiting: 2_000 };
      expect(await progress(started)).toMatchObject(selecting);
      // Settled after the replay was created; created after it.
      held[0]!();
      await cluster.delivery(late, 'finished');
      const [live] = await cluster.post({ type: 'many/x', key: '7', payload: 'live' });
      await cluster.delivery(live, 'finished');
      expect(data(receiver)).toEqual(['late', 'live']);
      // What the previous version would continue with.
      expect(
        await cluster.database.query('SELECT FROM replay WHERE done_at IS NULL AND id = $1', [started.id]),
      ).toEqual([]);
    } finally {
      await cluster.database.query('DROP FUNCTION refuse CASCADE');
    }
    expect(await finished(started)).toMatchObject({
      selecting: false,
      matched: 2_700,
      sent: 2_700,
      waiting: 0,
    });
    const again = data(receiver).slice(2);
    expect(again.toSorted()).toEqual(names.toSorted());
    for (const key of ['0', '7', '99']) {
      const own = (name: string) => name.split(':')[0] === key;
      expect(again.filter(own)).toEqual(names.filter(own));
    }
  });

  it('of a long key continues in steps, before live deliveries of it; one that fails blocks no other', async () => {
    const names = Array.from({ length: 1_200 }, (_, n) => `a${n + 1}`);
    const receiver = await cluster.listen('long');
    for (const part of [names.slice(0, 600), names.slice(600)])
      await cluster.post(...part.map((payload) => ({ type: 'long/x', key: 'a', payload })));
    await until(async () => (await cluster.counts('long')).finished === 1_200);
    receiver.received.splice(0);
    const fine = await sent('well', 'a1 b1');
    await cluster.database.query(`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
      CREATE TRIGGER refuse BEFORE UPDATE ON outbox FOR EACH ROW
        WHEN (OLD.sequence = 700 AND OLD.status = 'finished') EXECUTE FUNCTION refuse()`);
    const long = await replay('long');
    try {
      await until(async () => (await cluster.counts('long')).held === 500);
      const [live] = await cluster.post({ type: 'long/x', key: 'a', payload: 'live' });
      await cluster.delivery(live, 'held');
      await finished(await replay('well'));
      expect(data(fine).toSorted()).toEqual(['a1', 'b1']);
      expect(await progress(long)).toMatchObject({ status: 'running', matched: 1_200, sent: 0 });
      expect(await cluster.counts('long')).toEqual({ finished: 700, held: 501 });
      expect(data(receiver)).toEqual([]);
    } finally {
      await cluster.database.query('DROP FUNCTION refuse CASCADE');
    }
    expect(await finished(long)).toMatchObject({ sent: 1_200, dead: 0 });
    await until(() => data(receiver).length === 1_201);
    expect(data(receiver)).toEqual([...names, 'live']);
    const failed = cluster.replicas
      .flatMap(({ lines }) => lines)
      .find((line) => line.includes('replay-failed'));
    expect(JSON.parse(failed!)).toMatchObject({ event: 'listener.replay-failed', retryInMs: 1_000 });
  });

  describe('of a key whose dead letters are revived at the same time', () => {
    const BOTH = ['replay', 'ruling'] as const;
    type Which = (typeof BOTH)[number];
    const NUMBERS = Array.from({ length: 1_200 }, (_, n) => n + 1);
    const FAILS = {
      replay: `OLD.sequence = 1101 AND OLD.status = 'finished'`,
      ruling: `OLD.sequence = 1102 AND OLD.status = 'dead'`,
    };

    /** The odd ones of key a are replayed, the even ones are dead letters. */
    async function oddAndEven(listener: string, definition: Record<string, unknown> = {}): Promise<Receiver> {
      const receiver = await cluster.listen(listener, { lanes: 1, ...definition });
      const type = (n: number) => `${listener}/${n % 2 ? 'odd' : 'even'}`;
      for (const part of [NUMBERS.slice(0, 600), NUMBERS.slice(600)])
        await cluster.post(...part.map((n) => ({ type: type(n), key: 'a', payload: n })));
      await until(async () => (await cluster.counts(listener)).finished === NUMBERS.length);
      receiver.received.splice(0);
      await cluster.database.query(
        `UPDATE outbox SET status = 'dead', lapsed_at = now(), error = 'refused'
         FROM listener WHERE listener.number = outbox.listener AND listener.name = $1 AND outbox.sequence % 2 = 0`,
        [listener],
      );
      return receiver;
    }

    async function start(which: Which, listener: string): Promise<{ location: string }> {
      if (which === 'replay') return replay(listener, { types: [`${listener}/odd`] });
      const filter = { listener, type: `${listener}/even` };
      return (await cluster.call('POST', '/v1/dead-letters/revive', { filter })).body;
    }

    const heldOf = (listener: string) => (count: number) =>
      until(async () => (await cluster.counts(listener)).held === count);
    /** Waits until another delivery is sent, so that the lane was claimed. */
    async function passes(listener: string, key: string, payload = key): Promise<void> {
      const [passing] = await cluster.post({ type: `${listener}/${payload}`, key, payload });
      await cluster.delivery(passing, 'finished');
    }

    const fail = (which: Which) =>
      cluster.database.query(`
        CREATE FUNCTION refuse_${which}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
        CREATE TRIGGER refuse_${which} BEFORE UPDATE ON outbox FOR EACH ROW
          WHEN (${FAILS[which]}) EXECUTE FUNCTION refuse_${which}()`);
    const fix = (which: Which) => cluster.database.query(`DROP FUNCTION IF EXISTS refuse_${which} CASCADE`);
    afterEach(() => Promise.all(BOTH.map(fix)));

    it.each([
      ['replay', 'ruling', 'ruling'],
      ['ruling', 'replay', 'replay'],
      ['replay', 'ruling', 'replay'],
      ['ruling', 'replay', 'ruling'],
    ] as const)('sends all before live ones: %s, %s partly done, %s finished first', async (...order) => {
      const [earlier, later, through] = order;
      const listener = order.join('-');
      const receiver = await oddAndEven(listener);
      const held = heldOf(listener);
      for (const which of BOTH) await fail(which);
      const one = await start(earlier, listener);
      await held(500);
      const other = await start(later, listener);
      await held(1_000);
      const [live] = await cluster.post({ type: `${listener}/live`, key: 'a', payload: 'live' });
      await cluster.delivery(live, 'held');
      await fix(through);
      await held(1_101);
      await passes(listener, 'b');
      expect(data(receiver)).toEqual(['b']);
      for (const which of BOTH) await fix(which);
      await Promise.all([finished(one), finished(other)]);
      await cluster.delivery(live, 'finished');
      expect(data(receiver)).toEqual(['b', ...NUMBERS, 'live']);
    });

    it('lets a key that waits behind its dead letter continue when the action has finished the key', async () => {
      const receiver = await oddAndEven('behind');
      await passes('behind', 'a', 'again');
      receiver.received.splice(0);
      const [bad] = await cluster.post({ type: 'behind/bad', key: 'a', payload: 'bad' });
      await cluster.delivery(bad, 'finished');
      await cluster.database.query(`
        UPDATE outbox SET status = 'dead', lapsed_at = now() FROM inbox
        WHERE inbox.position = outbox.message AND inbox.type = 'behind/bad'`);
      await cluster.database.query(
        `INSERT INTO hold (queue, lane, key, until, reason, set_at)
         SELECT DISTINCT 'outbox', lane, key, 'infinity'::timestamptz, 'dead-letter', now() - interval '1 hour'
         FROM outbox WHERE listener = $1`,
        [await cluster.numberOf('behind')],
      );
      receiver.received.splice(0);
      await fail('ruling');
      const held = heldOf('behind');
      const ruling = await start('ruling', 'behind');
      await held(500);
      const again = await replay('behind', { types: ['behind/again'] });
      await held(501);
      const [live] = await cluster.post({ type: 'behind/live', key: 'a', payload: 'live' });
      await held(502);
      await passes('behind', 'b');
      expect(data(receiver)).toEqual(['b']);
      await fix('ruling');
      await Promise.all([finished(ruling), finished(again)]);
      await cluster.delivery(live, 'finished');
      expect(data(receiver)).toEqual(['b', ...NUMBERS.filter((n) => n % 2 === 0), 'again', 'live']);
      await cluster.delivery(bad, 'dead');
    });

    it.each(['before', 'after'])(
      'waits for one that died meanwhile and was revived %s the replay finished',
      async (when) => {
        const receiver = await oddAndEven(when, { onDead: 'hold', terminalStatuses: [400] });
        const refuse: (() => void)[] = [];
        receiver.respond = (received, response, count) =>
          void refuse.push(() => status(400)(received, response, count));
        const [doomed] = await cluster.post({ type: `${when}/late`, key: 'a', payload: 'late' });
        await until(() => refuse.length === 1);
        await fail('replay');
        const held = heldOf(when);
        const odd = await start('replay', when);
        await held(500);
        receiver.respond = ok;
        refuse[0]!();
        await cluster.delivery(doomed, 'dead');
        const filter = { listener: when, type: `${when}/late` };
        const revive = () => cluster.call('POST', '/v1/dead-letters/revive', { filter });
        if (when === 'before') {
          await revive();
          await held(501);
        }
        await fix('replay');
        if (when === 'after') {
          await held(600);
          await passes(when, 'b');
          expect(data(receiver)).toEqual(['late', 'b']);
          await revive();
        }
        await finished(odd);
        await cluster.delivery(doomed, 'finished');
        const sentOfA = data(receiver).filter((name) => name !== 'b');
        expect(sentOfA).toEqual(['late', ...NUMBERS.filter((n) => n % 2 === 1), 'late']);
      },
    );
  });

  it('of a listener that is paused or deleted waits until it is active again', async () => {
    const receiver = await sent('resting', 'a1 a2 b1');
    await cluster.call('POST', '/v1/listeners/resting/pause');
    const started = await replay('resting');
    const other = await sent('awake', 'a1');
    await finished(await replay('awake'));
    expect(data(other)).toEqual(['a1']);
    expect(await progress(started)).toMatchObject({ status: 'running', matched: 3, sent: 0 });
    expect(await cluster.counts('resting')).toEqual({ finished: 3 });
    await cluster.call('DELETE', '/v1/listeners/resting');
    await cluster.put('resting', { url: receiver.url });
    await finished(started);
    expect(ofKey(receiver, 'a')).toEqual(['a1', 'a2']);
    expect(data(receiver)).toHaveLength(3);
  });

  it('finds a listener on every replica as soon as it is created, and on none once it is deleted', async () => {
    const other = cluster.replicas[1]!;
    const asked = async () => [
      (await other.call('GET', '/v1/listeners/brief/deliveries')).status,
      (await other.call('POST', '/v1/listeners/brief/replay', { body: { since: LONG_AGO } })).status,
    ];
    const body = { types: ['brief/*'], url: 'http://127.0.0.1:8080/' };
    expect((await cluster.call('PUT', '/v1/listeners/brief', body)).status).toBe(201);
    expect(await asked()).toEqual([200, 202]);
    await cluster.call('DELETE', '/v1/listeners/brief');
    expect(await asked()).toEqual([404, 404]);
  });

  it('restarts the age of deliveries for their listener, for retention and for metrics', async () => {
    const receiver = await sent('anew', 'a1');
    const listener = [await cluster.numberOf('anew')];
    const old = `UPDATE outbox SET created_at = now() - interval '100 days' WHERE listener = $1`;
    await cluster.database.query(old, listener);
    receiver.respond = status(503, { 'retry-after': '60' });
    await replay('anew');
    const asked = `SELECT status, attempt FROM outbox WHERE listener = $1 AND error = 'responded 503'`;
    await until(async () => (await cluster.database.query(asked, listener)).length === 1);
    await cluster.replica.app.nest.get(Retention).sweep();
    expect(await cluster.database.query(asked, listener)).toEqual([{ status: 'held', attempt: 0 }]);
    const observed = await cluster.replica.app.nest.get(ObservationStore).observe();
    const ages = observed.filter((one) => one.name === 'backlog_oldest_age_seconds');
    expect(Math.max(...ages.map(({ value }) => value))).toBeLessThan(86_400);
  });

  it('requires valid times', async () => {
    await cluster.listen('asked');
    const outside = ['0000-01-01T00:00:00Z', '9999-12-31T23:59:59-01:00', '2026-02-31T00:00:00Z'];
    for (const time of ['yesterday', '2026-W07', '2026-02-31T00:00:00Zz', '', ...outside]) {
      for (const span of [{ since: time }, { since: LONG_AGO, until: time }]) {
        const response = await cluster.call('POST', '/v1/listeners/asked/replay', span);
        expect([span, response.status]).toEqual([span, 422]);
      }
    }
    expect((await cluster.call('GET', '/v1/listeners/asked/replays/1000000')).status).toBe(404);
    expect((await cluster.call('GET', '/v1/listeners/asked/replays/x')).status).toBe(404);
  });
});
