import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import { Refuse } from '../../src/contract/outcomes.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import { INBOX_LANES } from '../../src/inbox/new-message.ts';
import { laneOf } from '../../src/lanes/lane-of.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { oneTableReadModel } from '../support/one-table-read-model.ts';
import { ok, type Receiver, startReceiver, status } from '../support/receiver.ts';
import { openSession, untilBlocked } from '../support/session.ts';
import { until } from '../support/until.ts';

/** Payloads that cannot be applied at the moment. */
const broken = new Set<string>();

@Denormalizer({ types: ['fragile'] })
@Injectable()
class Fragile {
  async apply({ key, payload }: Message<string>, tx: ReadModelTransaction): Promise<void> {
    await tx.query('INSERT INTO applied (key, payload) VALUES ($1, $2)', [key, payload]);
    if (broken.has(payload)) throw new Error(`cannot apply "${payload}" of order ${key} after 17 ms`);
    if (payload === 'refused') throw new Refuse('never wanted');
  }
}

const FRAGILE = oneTableReadModel('applied (at bigserial, key text, payload text)', [Fragile]);
const SETTINGS = {
  INBOX_RETRY_SCHEDULE: '1ms',
  INBOX_POLL: '20ms',
  OUTBOX_POLL: '20ms',
  EGRESS_ALLOW: '127.0.0.0/8',
};

let database: TestDatabase;
let replicas: TestApp[];
const receivers: Receiver[] = [];

beforeAll(async () => {
  database = await createDatabase();
  replicas = [
    await startApp(database, SETTINGS, [FRAGILE]),
    await startApp(database, { ...SETTINGS, ROLES: 'api,inbox,outbox,upkeep' }, [FRAGILE]),
  ];
});
afterEach(() => broken.clear());
afterAll(async () => {
  for (const receiver of receivers) await receiver.close();
  for (const replica of replicas) await replica.close();
  await database.drop();
});

const call = (method: string, path: string, body?: unknown) =>
  replicas[0]!.call(method, path, body === undefined ? {} : { body });
const post = async (key: string, ...payloads: readonly string[]) => {
  const messages = payloads.map((payload) => ({ id: `${key}-${payload}`, type: 'fragile', key, payload }));
  expect((await call('POST', '/v1/messages/batch', { messages })).status).toBe(202);
};
const statusOf = async (id: string) => (await call('GET', `/v1/messages/${id}`)).body.status;
const becomes = (id: string, wanted: string) => until(async () => (await statusOf(id)) === wanted);
const applied = async (key: string) =>
  (
    await database.query<{ payload: string }>('SELECT payload FROM applied WHERE key = $1 ORDER BY at', [key])
  ).map(({ payload }) => payload);
const audit = async (action: string) => (await call('GET', `/v1/audit?action=${action}`)).body.items;

/** Posts messages of which the first is dead and the others wait behind it. */
async function deadWithFollowers(key: string): Promise<void> {
  broken.add('bad');
  await post(key, 'bad', 'b', 'c');
  await becomes(`${key}-bad`, 'dead');
  await becomes(`${key}-c`, 'held');
}

function findKey(prefix: string, inLane: (lane: number) => boolean): string {
  for (let n = 0; ; n++) if (inLane(laneOf(`${prefix}-${n}`, INBOX_LANES))) return `${prefix}-${n}`;
}

async function listen(name: string, definition: object = {}): Promise<Receiver> {
  const receiver = await startReceiver(status(400));
  receivers.push(receiver);
  const body = { types: [`${name}/*`], url: receiver.url, terminalStatuses: [400], ...definition };
  expect((await call('PUT', `/v1/listeners/${name}`, body)).status).toBe(201);
  const { Listeners } = await import('../../src/listeners/listeners.ts');
  for (const { app } of replicas) await app.nest.get(Listeners).refresh();
  return receiver;
}
const send = async (name: string, ...payloads: readonly number[]) => {
  const messages = payloads.map((payload) => ({
    id: `${name}-${payload}`,
    type: `${name}/x`,
    key: name,
    payload,
  }));
  await call('POST', '/v1/messages/batch', { messages });
};
const deadOf = async (name: string, count: number) =>
  until(async () => {
    const { items } = (await call('GET', `/v1/dead-letters?listener=${name}`)).body;
    return items.length === count && items;
  });

describe('dead letters of the inbox', () => {
  it('A5 are listed with their error and the number of messages behind them, and can be read', async () => {
    await deadWithFollowers('listed');
    const { body } = await call('GET', '/v1/dead-letters?stage=inbox&key=listed');
    expect(body).toEqual({
      items: [
        {
          id: 'listed-bad',
          stage: 'inbox',
          message: 'listed-bad',
          source: expect.any(String),
          type: 'fragile',
          key: 'listed',
          attempt: 2,
          error: 'Error: cannot apply "bad" of order listed after 17 ms',
          fingerprint: 'Error: cannot apply <text> of order listed after <n> ms',
          occurredAt: null,
          receivedAt: expect.any(String),
          diedAt: expect.any(String),
          waiting: 2,
        },
      ],
      next: null,
    });
    const one = await call('GET', '/v1/dead-letters/listed-bad');
    expect(one.body).toEqual({
      ...body.items[0],
      headers: {},
      attempts: [],
      attemptsTotal: 0,
      payload: 'bad',
    });
  });

  it('run again before the messages behind them when they are revived, with new attempts', async () => {
    await deadWithFollowers('revived');
    broken.clear();
    const response = await replicas[1]!.call('POST', '/v1/dead-letters/revived-bad/revive', {
      body: { reason: 'fixed' },
    });
    expect([response.status, response.body]).toEqual([
      200,
      { id: 'revived-bad', stage: 'inbox', status: 'held' },
    ]);
    await becomes('revived-c', 'finished');
    expect(await applied('revived')).toEqual(['bad', 'b', 'c']);
    expect((await call('GET', '/v1/messages/revived-bad')).body).toMatchObject({
      status: 'finished',
      attempt: 1,
      error: null,
      ruling: { kind: 'revive', by: 'admin', reason: 'fixed' },
    });
    await until(async () => (await database.query(`SELECT FROM hold WHERE key = 'revived'`)).length === 0);
  });

  it('hold their key again when they die again, after all their attempts', async () => {
    await deadWithFollowers('again');
    await call('POST', '/v1/dead-letters/again-bad/revive');
    await until(async () => (await call('GET', '/v1/messages/again-bad')).body.attempt === 2);
    await becomes('again-bad', 'dead');
    expect(await statusOf('again-b')).toBe('held');
    expect(await applied('again')).toEqual([]);
  });

  it('E6 are recorded when they are discarded, with who and why, and their key continues', async () => {
    await deadWithFollowers('discarded');
    const response = await call('DELETE', '/v1/dead-letters/discarded-bad?reason=typo');
    expect([response.status, response.text]).toEqual([204, '']);
    await becomes('discarded-c', 'finished');
    expect(await applied('discarded')).toEqual(['b', 'c']);
    expect((await call('GET', '/v1/messages/discarded-bad')).body).toMatchObject({
      status: 'discarded',
      error: expect.stringContaining('cannot apply'),
      ruling: { kind: 'discard', by: 'admin', reason: 'typo', at: expect.any(String) },
    });
    expect((await audit('dead-letters.discard'))[0]).toMatchObject({
      by: 'admin',
      target: 'discarded-bad',
      reason: 'typo',
    });
    const found = await call('GET', '/v1/messages?status=discarded&key=discarded');
    expect(found.body.items).toHaveLength(1);
    expect((await call('GET', '/v1/messages/discarded-bad/why')).body.waitsFor).toEqual({ kind: 'nothing' });
    const metrics = await call('GET', '/metrics');
    expect(metrics.text).toMatch(/sluice_dead_letters_discarded_total\{stage="inbox"\} [1-9]/);
    // The same id again is still the same message.
    const repeated = await call('POST', '/v1/messages', {
      id: 'discarded-bad',
      type: 'fragile',
      key: 'discarded',
      payload: 'bad',
    });
    expect(repeated.body).toMatchObject({ duplicate: true, status: 'discarded' });
  });

  it('that were skipped by ending the hold do not release their key from a later dead letter', async () => {
    broken.add('one').add('two');
    await post('passed', 'one', 'a', 'two', 'b');
    await becomes('passed-one', 'dead');
    await until(async () => (await call('DELETE', '/v1/keys/passed/hold')).status === 204);
    await becomes('passed-two', 'dead');
    broken.delete('one');
    await call('POST', '/v1/dead-letters/passed-one/revive');
    const { waitsFor } = (await call('GET', '/v1/messages/passed-one/why')).body;
    expect(waitsFor).toMatchObject({ hold: 'dead-letter', reason: 'dead-letter', deadLetter: 'passed-two' });
    broken.delete('two');
    await call('POST', '/v1/dead-letters/passed-two/revive');
    await becomes('passed-b', 'finished');
    expect(await applied('passed')).toEqual(['a', 'one', 'two', 'b']);
  });

  it('leave the key held if an operator holds it, too', async () => {
    await deadWithFollowers('both');
    await call('PUT', '/v1/keys/both/hold', { reason: 'stocktaking' });
    broken.clear();
    await call('POST', '/v1/dead-letters/both-bad/revive');
    const why = (await call('GET', '/v1/messages/both-bad/why')).body;
    expect(why.waitsFor).toMatchObject({ kind: 'hold', hold: 'operator', reason: 'stocktaking' });
    await call('DELETE', '/v1/keys/both/hold');
    await becomes('both-c', 'finished');
    expect(await applied('both')).toEqual(['bad', 'b', 'c']);
  });

  it('leave the key held until the time set by an operator', async () => {
    await deadWithFollowers('later');
    const held = async () => (await call('GET', '/v1/holds?key=later')).body.items;
    await call('PUT', '/v1/keys/later/hold', { reason: 'stocktaking', until: '2999-01-01T00:00:00Z' });
    expect(await held()).toMatchObject([{ kind: 'dead-letter', until: null, reason: 'stocktaking' }]);
    broken.clear();
    await call('POST', '/v1/dead-letters/later-bad/revive');
    expect(await held()).toMatchObject([
      { kind: 'operator', until: '2999-01-01T00:00:00.000Z', reason: 'stocktaking' },
    ]);
    await call('DELETE', '/v1/keys/later/hold');
    await becomes('later-c', 'finished');
    await deadWithFollowers('sooner');
    await call('PUT', '/v1/keys/sooner/hold', { reason: 'stocktaking', until: '2020-01-01T00:00:00Z' });
    broken.clear();
    await call('DELETE', '/v1/dead-letters/sooner-bad');
    await becomes('sooner-c', 'finished');
  });

  it('are not touched while the holder of their lane is at work', async () => {
    await deadWithFollowers('locked');
    const holder = await openSession(database);
    await holder.query(
      `BEGIN; SELECT FROM lane WHERE queue = 'inbox' AND lane = (SELECT lane FROM inbox WHERE id = 'locked-bad') FOR NO KEY UPDATE`,
    );
    const discarding = call('DELETE', '/v1/dead-letters/locked-bad');
    await untilBlocked(database);
    expect(await statusOf('locked-bad')).toBe('dead');
    await holder.query('COMMIT');
    await holder.close();
    expect((await discarding).status).toBe(204);
  });

  it('return 404 for an unknown id, 409 for one that is no longer a dead letter, also to the second of two operators', async () => {
    expect((await call('POST', '/v1/dead-letters/nobody/revive')).status).toBe(404);
    expect((await call('GET', '/v1/dead-letters/00000000-0000-0000-0000-000000000000')).status).toBe(404);
    await post('fine', 'fine');
    await becomes('fine-fine', 'finished');
    expect((await call('POST', '/v1/dead-letters/fine-fine/revive')).status).toBe(404);
    expect((await call('DELETE', '/v1/dead-letters/discarded-bad')).status).toBe(409);
    expect((await call('POST', '/v1/dead-letters/revived-bad/revive')).body).toMatchObject({
      type: 'urn:sluice:problems/conflict',
      detail: 'This is no longer a dead letter (finished).',
    });
    broken.add('race');
    await post('race', 'race');
    await becomes('race-race', 'dead');
    const responses = await Promise.all(
      Array.from({ length: 8 }, (_, n) => replicas[n % 2]!.call('DELETE', '/v1/dead-letters/race-race')),
    );
    expect(responses.map((response) => response.status).toSorted()).toEqual([204, ...Array(7).fill(409)]);
    const reported = (await audit('dead-letters.discard')).filter(
      ({ target }: { target: string }) => target === 'race-race',
    );
    expect(reported).toHaveLength(1);
  });
});

describe('many dead letters', () => {
  it('are grouped by their errors, counted by a dry run, revived in order, and shown while in flight', async () => {
    const keys = Array.from({ length: 60 }, (_, n) => `many-${n}`);
    broken.add('bad');
    const messages = keys.flatMap((key) =>
      ['bad', 'b'].map((payload) => ({ id: `${key}-${payload}`, type: 'fragile', key, payload })),
    );
    await call('POST', '/v1/messages/batch', { messages });
    await post('apart', 'refused');
    const dead = async (filter: object) =>
      (await call('POST', '/v1/dead-letters/revive', { filter, dryRun: true })).body.matched;
    await until(async () => (await dead({ error: 'order many-', stage: 'inbox' })) === 60);
    await becomes('apart-refused', 'dead');

    const { items } = (await call('GET', '/v1/dead-letters/groups?error=cannot%20apply')).body;
    const group = items.find(({ count }: { count: number }) => count >= 60);
    expect(group).toMatchObject({
      stage: 'inbox',
      fingerprint: 'Error: cannot apply <text> of order <n> after <n> ms',
      first: expect.any(String),
      last: expect.any(String),
      example: { type: 'fragile', error: expect.stringContaining('cannot apply "bad"') },
    });
    expect(await dead({ error: group.fingerprint })).toBe(60);
    expect(await dead({ type: 'frag*', error: 'NEVER wanted' })).toBe(1);
    expect(await dead({ key: 'many-7' })).toBe(1);
    expect(await dead({ since: '2999-01-01T00:00:00Z' })).toBe(0);

    const seen: string[] = [];
    let next: string | null = null;
    do {
      const cursor: string = next ? `&cursor=${next}` : '';
      const page = (await call('GET', `/v1/dead-letters?type=fragile&error=many&limit=25${cursor}`)).body;
      seen.push(...page.items.map(({ id }: { id: string }) => id));
      next = page.next;
    } while (next);
    expect(seen).toHaveLength(60);
    expect(new Set(seen).size).toBe(60);

    broken.clear();
    const started = await call('POST', '/v1/dead-letters/revive', { filter: { error: group.fingerprint } });
    expect(started).toMatchObject({ status: 202, body: { matched: 60, location: expect.any(String) } });
    const progress = async () => (await call('GET', started.body.location)).body;
    await until(async () => (await progress()).status === 'finished');
    expect(await progress()).toMatchObject({
      kind: 'revive',
      matched: 60,
      done: 60,
      skipped: 0,
      remaining: 0,
      waiting: 0,
      ended: 60,
      dead: 0,
      createdBy: 'admin',
    });
    for (const key of keys) {
      await becomes(`${key}-b`, 'finished');
      expect(await applied(key)).toEqual(['bad', 'b']);
    }
    expect((await audit('dead-letters.*'))[0]).toMatchObject({
      by: 'admin',
      action: 'dead-letters.revive',
      filter: { error: group.fingerprint },
      count: 60,
    });
  });

  it('of one key are revived in steps, in order, before the messages behind them; one that fails blocks no other', async () => {
    const count = 1_200;
    const lane = laneOf('long', INBOX_LANES);
    await database.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at, lapsed_at, error)
       SELECT 'long-' || n, 'x', 'fragile', 'long', $1, to_json(n::text), 'dead', now(), now(), 'too long'
       FROM generate_series(1, $2) AS n`,
      [lane, count],
    );
    await deadWithFollowers('short');
    broken.clear();
    await database.query(`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
      CREATE TRIGGER refuse BEFORE UPDATE ON inbox FOR EACH ROW
        WHEN (OLD.id = 'long-700' AND NEW.status = 'held') EXECUTE FUNCTION refuse()`);
    const revive = async (filter: object) =>
      (await call('POST', '/v1/dead-letters/revive', { filter })).body.location as string;
    const progress = async (location: string) => (await call('GET', location)).body;
    const long = await revive({ key: 'long' });
    try {
      await until(async () => (await progress(long)).done > 0);
      await post('long', 'after');
      await becomes('long-after', 'held');
      // Not before the action has finished the key.
      const until2020 = { reason: 'no longer', until: '2020-01-01T00:00:00Z' };
      expect((await call('PUT', '/v1/keys/long/hold', until2020)).status).toBe(200);
      const short = await revive({ key: 'short' });
      await until(async () => (await progress(short)).status === 'finished');
      await becomes('short-c', 'finished');
      expect(await progress(long)).toMatchObject({
        status: 'running',
        matched: count,
        done: 500,
        waiting: 500,
      });
      expect(await applied('long')).toEqual([]);
    } finally {
      await database.query('DROP FUNCTION refuse CASCADE');
    }
    await until(async () => (await progress(long)).status === 'finished');
    expect(await progress(long)).toMatchObject({ done: count, skipped: 0, ended: count, dead: 0 });
    await becomes('long-after', 'finished');
    const numbers = Array.from({ length: count }, (_, n) => String(n + 1));
    expect(await applied('long')).toEqual([...numbers, 'after']);
    const failed = replicas.flatMap(({ lines }) => lines).filter((line) => line.includes('action-failed'));
    expect(JSON.parse(failed[0]!)).toMatchObject({ event: 'dead-letters.action-failed', retryInMs: 1_000 });
    await until(async () => (await database.query(`SELECT FROM hold WHERE key = 'long'`)).length === 0);
  });

  it('are discarded with a reason', async () => {
    broken.add('bad');
    for (const key of ['junk-1', 'junk-2', 'junk-3']) await post(key, 'bad', 'b');
    for (const key of ['junk-1', 'junk-2', 'junk-3']) await becomes(`${key}-bad`, 'dead');
    const filter = { error: 'junk-' };
    for (const without of [{}, { reason: null }]) {
      const refused = await call('POST', '/v1/dead-letters/discard', { filter, ...without });
      expect([refused.status, refused.body.errors]).toEqual([
        422,
        [{ pointer: '/reason', detail: 'is required' }],
      ]);
    }
    const { body } = await call('POST', '/v1/dead-letters/discard', { filter, reason: 'junk' });
    expect(body.matched).toBe(3);
    await until(async () => (await call('GET', body.location)).body.status === 'finished');
    for (const key of ['junk-1', 'junk-2', 'junk-3']) {
      await becomes(`${key}-b`, 'finished');
      expect(await statusOf(`${key}-bad`)).toBe('discarded');
    }
  });

  it('are selected by filters, whose errors are reported', async () => {
    for (const [filter, pointer] of [
      [{ stage: 'outer' }, '/filter/stage'],
      [{ since: 'yesterday' }, '/filter/since'],
      [{ listener: 'nobody' }, '/filter/listener'],
      [{ stage: 'inbox', listener: 'x' }, '/filter/listener'],
      [{ colour: 'red' }, '/filter/colour'],
      ...['stage', 'listener', 'type', 'key', 'error', 'since'].map(
        (name) => [{ [name]: null }, `/filter/${name}`] as const,
      ),
      [[], '/filter'],
      [null, '/filter'],
    ] as const) {
      const response = await call('POST', '/v1/dead-letters/revive', { filter, dryRun: true });
      expect([filter, response.status]).toEqual([filter, 422]);
      expect([filter, response.body.errors[0].pointer]).toEqual([filter, pointer]);
    }
    expect((await call('POST', '/v1/dead-letters/revive', { dryRun: true })).status).toBe(422);
    expect((await call('POST', '/v1/dead-letters/revive', { filter: {}, dryRun: null })).status).toBe(422);
    for (const query of ['stage=x', 'since=x', 'listener=nobody', 'cursor=x', 'limit=0', 'colour=red'])
      expect([query, (await call('GET', `/v1/dead-letters?${query}`)).status]).toEqual([query, 422]);
    expect((await call('GET', '/v1/dead-letters/rulings/999999')).status).toBe(404);
  });
});

describe('dead letters of several queues', () => {
  it('are revived where they can run, however many wait for a paused listener or an operator', async () => {
    const pace = 500;
    await listen('shut');
    const receiver = await listen('open');
    receiver.respond = ok;
    const { body: paused } = await call('POST', '/v1/listeners/shut/pause');
    expect(paused.state).toBe('paused');
    await database.query(
      `WITH message AS (
         INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at)
         SELECT 'queues-' || n, 'x', 'queues', 'queues-' || n, n % 256, 'null', 'finished', now()
         FROM generate_series(0, $1) AS n
         RETURNING position, key)
       INSERT INTO outbox (listener, lane, message, key, sequence, status, settled_at, lapsed_at, error)
       SELECT listener.number, listener.number * 256, message.position, message.key, 1, 'dead', now(), now(), 'queues'
       FROM message, listener
       WHERE listener.name = CASE message.key WHEN 'queues-0' THEN 'open' ELSE 'shut' END`,
      [pace + 1],
    );
    // One more key in the last lane, after all that are held.
    const held = Array.from({ length: pace }, (_, n) => `queues-held-${n}`);
    const free = findKey('queues-free', (lane) => lane === 255);
    const keys = [...held.filter((key) => laneOf(key, INBOX_LANES) < 255), free];
    await database.query(
      `WITH held AS (
         INSERT INTO hold (queue, key, lane, until, reason, note)
         SELECT 'inbox', key, lane, 'infinity', 'operator', 'stocktaking'
         FROM unnest($1::text[], $2::int[]) AS one(key, lane) WHERE key <> $3)
       INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at, lapsed_at, error)
       SELECT key || n, 'x', 'fragile', key, lane, '"fine"', 'dead', now(), now(), 'queues'
       FROM unnest($1::text[], $2::int[]) AS one(key, lane), generate_series(1, 2) AS n`,
      [keys, keys.map((key) => laneOf(key, INBOX_LANES)), free],
    );

    const { body } = await call('POST', '/v1/dead-letters/revive', { filter: { error: 'queues' } });
    await until(() => receiver.received.length === 1);
    await becomes(`${free}2`, 'finished');
    await until(async () => (await call('GET', body.location)).body.remaining === 1);
    expect((await call('GET', body.location)).body).toMatchObject({ status: 'running', ended: 3 });
    await database.query(`UPDATE listener SET deleted_at = now() WHERE name = 'shut'`);
  });
});

describe('dead letters of the outbox', () => {
  it('are delivered again with the same id, in key order, with all their attempts', async () => {
    const receiver = await listen('resent', { onDead: 'hold' });
    await send('resent', 1, 2, 3);
    const [dead] = await deadOf('resent', 1);
    expect(dead).toMatchObject({
      stage: 'outbox',
      listener: 'resent',
      message: 'resent-1',
      type: 'resent/x',
      key: 'resent',
      attempt: 1,
      error: 'responded 400',
      fingerprint: 'responded 400',
    });
    await until(async () => (await call('GET', `/v1/dead-letters/${dead.id}`)).body.waiting === 2);
    expect((await call('GET', `/v1/dead-letters/${dead.id}`)).body).toMatchObject({
      payload: 1,
      attempts: [{ attempt: 1, status: 400, excerpt: 'response 400' }],
    });
    receiver.respond = ok;
    expect((await call('POST', `/v1/dead-letters/${dead.id}/revive`)).status).toBe(200);
    await until(() => receiver.received.length === 4);
    expect(receiver.received.map(({ body }) => body.data)).toEqual([1, 1, 2, 3]);
    expect(receiver.received[1]!.headers['webhook-id']).toBe(receiver.received[0]!.headers['webhook-id']);
    await until(async () => (await call('POST', `/v1/dead-letters/${dead.id}/revive`)).status === 409);
  });

  it('show their newest attempts, and how many there were', async () => {
    await listen('tried');
    await send('tried', 1);
    const [dead] = await deadOf('tried', 1);
    await database.query(
      `INSERT INTO attempt (delivery, at, attempt, error)
       SELECT position, now() - n * interval '1 s', 1, 'earlier ' || n FROM outbox, generate_series(1, 60) AS n WHERE id = $1`,
      [dead.id],
    );
    const [{ attempts, attemptsTotal }] = (await call('GET', '/v1/messages/tried-1')).body.deliveries;
    expect([attempts.length, attemptsTotal]).toEqual([50, 61]);
    expect([attempts[0].error, attempts[48].error, attempts[49].error]).toEqual([
      'earlier 49',
      'earlier 1',
      'responded 400',
    ]);
    expect((await call('GET', `/v1/dead-letters/${dead.id}`)).body).toMatchObject({
      attempts,
      attemptsTotal,
    });
  });

  it('are discarded, and the deliveries behind them are sent', async () => {
    const receiver = await listen('gone', { onDead: 'hold' });
    await send('gone', 1, 2);
    const [dead] = await deadOf('gone', 1);
    receiver.respond = ok;
    const body = { reason: 'they do not want it' };
    expect((await call('DELETE', `/v1/dead-letters/${dead.id}`, body)).status).toBe(204);
    await until(() => receiver.received.length === 2);
    expect(receiver.received[1]!.body.data).toBe(2);
    const [delivery] = (await call('GET', '/v1/messages/gone-1')).body.deliveries;
    expect(delivery).toMatchObject({
      status: 'discarded',
      ruling: { kind: 'discard', by: 'admin', ...body },
    });
    const listed = await call('GET', '/v1/listeners/gone/deliveries?status=discarded');
    expect(listed.body.items).toHaveLength(1);
    expect((await call('DELETE', `/v1/dead-letters/${dead.id}`)).status).toBe(409);
    // Not even a replay of everything sends it again.
    const replay = await call('POST', '/v1/listeners/gone/replay', { since: '2020-01-01T00:00:00Z' });
    expect(replay.body.matched).toBe(1);
  });

  it('of a listener that skips them are revived together, each key in its order', async () => {
    const receiver = await listen('skip');
    await send('skip', 1, 2, 3);
    await deadOf('skip', 3);
    receiver.received.splice(0);
    receiver.respond = ok;
    const started = await call('POST', '/v1/dead-letters/revive', { filter: { listener: 'skip' } });
    expect(started.body.matched).toBe(3);
    await until(() => receiver.received.length === 3);
    expect(receiver.received.map(({ body }) => body.data)).toEqual([1, 2, 3]);
  });

  it('start over when they are revived: a pause that their listener requests is not limited by their old age', async () => {
    const receiver = await listen('patient');
    await send('patient', 1);
    const [dead] = await deadOf('patient', 1);
    await database.query(`UPDATE outbox SET created_at = now() - interval '80 hours' WHERE id = $1`, [
      dead.id,
    ]);
    receiver.respond = status(503, { 'retry-after': '60' });
    await call('POST', `/v1/dead-letters/${dead.id}/revive`);
    await until(async () => (await database.query('SELECT FROM gate')).length === 1);
    const story = async () => (await call('GET', '/v1/messages/patient-1')).body.deliveries[0];
    await until(async () => (await story()).status === 'held');
    expect(await story()).toMatchObject({ attempt: 0, error: 'responded 503' });
  });
});

describe('the alarm', () => {
  it('E6 is raised once by all replicas when a queue reaches a threshold, and again after it fell below', async () => {
    const alerts = async () =>
      (
        await database.query<{ key: string; payload: Record<string, unknown> }>(
          `SELECT key, payload FROM inbox WHERE type = 'urn:sluice:alerts/dead-letters' ORDER BY position`,
        )
      ).map(({ key, payload }) => [key, payload.threshold]);
    const ofInbox = async () => (await alerts()).filter(([key]) => key === 'inbox');
    const clear = async () => {
      await call('POST', '/v1/dead-letters/discard', { filter: {}, reason: 'start over' });
      await until(
        async () => (await database.query('SELECT FROM dead_letter_alarm WHERE threshold > 0')).length === 0,
      );
      await database.query(`DELETE FROM inbox WHERE type = 'urn:sluice:alerts/dead-letters'`);
    };
    await clear();
    broken.add('bad');
    await post('alarm-1', 'bad');
    await until(async () => (await ofInbox()).length === 1);
    for (const n of [2, 3, 4, 5, 6]) await post(`alarm-${n}`, 'bad');
    await until(async () => (await ofInbox()).length === 2);
    expect(await ofInbox()).toEqual([
      ['inbox', 1],
      ['inbox', 5],
    ]);
    await clear();
    await post('alarm-7', 'bad');
    await until(async () => (await ofInbox()).length === 1);
    expect(await ofInbox()).toEqual([['inbox', 1]]);
    await listen('alarmed');
    await send('alarmed', 1);
    await until(async () => (await alerts()).some(([key, one]) => key === 'outbox/alarmed' && one === 1));
  });
});

describe('the audit log', () => {
  it('records who did what to what, when and why, for every operator action', async () => {
    const receiver = await startReceiver();
    receivers.push(receiver);
    const [{ since }] = (await database.query(
      `SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS since`,
    )) as [{ since: string }];
    const listener = { types: ['audited'], url: receiver.url };
    await call('PUT', '/v1/keys/watched/hold', { reason: 'look' });
    await call('DELETE', '/v1/keys/watched/hold');
    await call('PUT', '/v1/listeners/audited', listener);
    await call('POST', '/v1/listeners/audited/pause', { reason: 'nightly' });
    await call('POST', '/v1/listeners/audited/pause');
    await call('POST', '/v1/listeners/audited/resume');
    await call('POST', '/v1/listeners/audited/rotate-secret');
    expect((await call('POST', '/v1/listeners/audited/test')).body.delivered).toBe(true);
    await call('POST', '/v1/listeners/audited/replay', { since });
    await call('DELETE', '/v1/listeners/audited');
    const key = (await call('POST', '/v1/api-keys', { name: 'watcher', scopes: ['read'] })).body;
    await call('DELETE', `/v1/api-keys/${key.id}`);
    await call('DELETE', `/v1/api-keys/${key.id}`);
    // Refused, so nothing is recorded.
    await call('PUT', '/v1/listeners/audited', { ...listener, lanes: 3 });

    const { items } = (await call('GET', `/v1/audit?since=${since}`)).body;
    expect(items.map(({ action, target }: Record<string, string>) => [action, target])).toEqual([
      ['api-key.revoke', `watcher (${key.id})`],
      ['api-key.create', `watcher (${key.id}): read`],
      ['listener.delete', 'audited'],
      ['listener.replay', 'audited'],
      ['listener.test', 'audited'],
      ['listener.rotate-secret', 'audited'],
      ['listener.resume', 'audited'],
      ['listener.pause', 'audited'],
      ['listener.put', 'audited'],
      ['hold.end', 'watched'],
      ['hold.put', 'watched'],
    ]);
    expect(items.at(-1)).toEqual({
      id: expect.any(String),
      at: expect.any(String),
      by: 'admin',
      action: 'hold.put',
      target: 'watched',
      filter: {},
      count: null,
      reason: 'look',
    });
    const ofListeners = (await call('GET', `/v1/audit?action=listener.*&limit=2&since=${since}`)).body;
    expect(ofListeners.items).toHaveLength(2);
    const rest = (await call('GET', `/v1/audit?action=listener.*&since=${since}&cursor=${ofListeners.next}`))
      .body;
    expect(rest.items).toHaveLength(5);
    expect((await call('GET', '/v1/audit?action=nonsense')).status).toBe(422);
    expect((await call('GET', '/v1/audit?since=nonsense')).status).toBe(422);
    expect(JSON.stringify(items)).not.toContain(key.key);
  });
});
