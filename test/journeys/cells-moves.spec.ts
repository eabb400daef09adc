import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { slotOf } from '../../src/cells/slot-of.ts';
import { runCli } from '../../src/cli/cli.ts';
import { ADMIN_KEY, type TestApp } from '../support/app.ts';
import { keyIn, twoCells } from '../support/cells.ts';
import { type LedgerRow, readModel } from '../support/ledger-read-model.ts';
import { hang, ok, type Receiver, startReceiver, status } from '../support/receiver.ts';
import { openSession, untilBlocked } from '../support/session.ts';
import { keysOf } from '../support/slot-load.ts';
import { stopAt } from '../support/stop-at.ts';
import { until } from '../support/until.ts';

const cells = twoCells({ EGRESS_ALLOW: '127.0.0.0/8' });
const { home, b } = cells;
const databases = { home, b };
let replica: TestApp;
let receiver: Receiver;

beforeAll(async () => {
  receiver = await startReceiver();
  replica = await cells.start({}, { readModels: [readModel] });
  const body = { types: ['test/*'], url: receiver.url, terminalStatuses: [422] };
  expect((await replica.call('PUT', '/v1/listeners/all', { body })).status).toBe(201);
});
afterAll(() => receiver.close());

async function post(key: string, n: number, id = `${key}-${n}`): Promise<number> {
  const body = { type: 'test/count', key, id, payload: { n } };
  return (await replica.call('POST', '/v1/messages', { body })).status;
}

async function requested(to: string, slots: number | string) {
  return replica.call('POST', `/v1/cells/${to}/slots`, { body: { slots: String(slots) } });
}

async function moved(to: string, slots: number | string, state = 'done') {
  const { status, body } = await requested(to, slots);
  expect(status).toBe(202);
  const ids: string[] = body.items.map(({ id }: { id: string }) => id);
  const own = async () =>
    (await replica.call('GET', '/v1/cells/moves')).body.items.filter((one: { id: string }) =>
      ids.includes(one.id),
    );
  await until(async () => (await own()).every((one: { endedAt: string }) => one.endedAt !== null));
  const ended = await own();
  expect(ended.map((one: { state: string; error: string | null }) => [one.state, one.error])).toEqual(
    ids.map(() => [state, state === 'done' ? null : expect.any(String)]),
  );
  return ended;
}

const ledgerOf = async (cell: 'home' | 'b', key: string) =>
  (await databases[cell].query<LedgerRow>('SELECT * FROM ledger WHERE key = $1', [key]))[0];
const untilApplied = (cell: 'home' | 'b', key: string, n: number) =>
  until(async () => (await ledgerOf(cell, key))?.n === n);
const deliveredOf = (key: string) =>
  receiver.received.flatMap(({ body }) => {
    const { key: own, data } = body as { key: string; data: { n: number } };
    return own === key ? [data.n] : [];
  });
const rowsOf = async (cell: 'home' | 'b', key: string) =>
  (
    await databases[cell].query<{ n: number }>('SELECT count(*)::int AS n FROM inbox WHERE key = $1', [key])
  )[0]!.n;

describe('a slot', () => {
  it('moves with its messages, deliveries and rows of read models, and back', async () => {
    const key = keyIn('home', 100);
    for (let n = 1; n <= 5; n++) expect(await post(key, n)).toBe(202);
    await untilApplied('home', key, 5);
    await moved('b', slotOf(key));
    expect(await rowsOf('home', key)).toBe(0);
    expect(await rowsOf('b', key)).toBe(5);
    expect(await ledgerOf('home', key)).toBeUndefined();
    expect(await post(key, 3)).toBe(200);
    for (let n = 6; n <= 10; n++) expect(await post(key, n)).toBe(202);
    await untilApplied('b', key, 10);
    await moved('home', slotOf(key));
    expect(await post(key, 7)).toBe(200);
    for (let n = 11; n <= 15; n++) expect(await post(key, n)).toBe(202);
    await untilApplied('home', key, 15);
    expect(await ledgerOf('home', key)).toMatchObject({ applied: 15, wrong: 0 });
    await until(() => deliveredOf(key).length === 15);
    expect(deliveredOf(key)).toEqual(Array.from({ length: 15 }, (_, nth) => nth + 1));
  });

  it('moves with what waits: holds, retries, dead letters and messages that are due later', async () => {
    const [held, failing] = keysOf(slotOf(keyIn('home', 101)), 2) as [string, string];
    await replica.call('PUT', `/v1/keys/${held}/hold`, { body: { reason: 'wait' } });
    expect(await post(held, 1)).toBe(202);
    receiver.respond = (received, response, count) =>
      (received.body.key === failing ? status(422) : ok)(received, response, count);
    expect(await post(failing, 1)).toBe(202);
    const deadLetters = async () => (await replica.call('GET', '/v1/dead-letters')).body.items;
    await until(async () => (await deadLetters()).length === 1);
    const later = {
      type: 'test/count',
      key: held,
      id: 'later',
      payload: { n: 3 },
      dueAt: '2999-01-01T00:00:00Z',
    };
    expect((await replica.call('POST', '/v1/messages', { body: later })).status).toBe(202);

    await moved('b', slotOf(held));
    expect(await b.query(`SELECT key, status FROM inbox WHERE id = 'later'`)).toEqual([
      { key: held, status: 'scheduled' },
    ]);
    expect(await ledgerOf('b', held)).toBeUndefined();
    expect(await post(held, 2)).toBe(202);
    expect((await replica.call('DELETE', `/v1/keys/${held}/hold`)).status).toBe(204);
    await untilApplied('b', held, 2);
    expect(await ledgerOf('b', held)).toMatchObject({ applied: 2, wrong: 0 });
    receiver.respond = ok;
    const [dead] = await deadLetters();
    const path = `/v1/dead-letters/${dead.id}/revive?stage=${dead.stage}`;
    expect((await replica.call('POST', path, { body: { reason: 'test' } })).status).toBeLessThan(300);
    await until(() => deliveredOf(failing).filter((n) => n === 1).length === 2);
    await post(failing, 2);
    await until(() => deliveredOf(failing).includes(2));
    const { body } = await replica.call('GET', `/v1/messages/${failing}-1`);
    expect(body.deliveries[0]).toMatchObject({ status: 'finished', sequence: 1 });
  });

  it('keeps payloads as they are, and alerts where they are', async () => {
    const key = keyIn('home', 103);
    const payload = String.raw`{"n":1,  "a": "\u00e9\"}{,", "b":[ ]}`;
    const body = `{"type":"test/count","key":"${key}","id":"exact","payload":${payload}}`;
    expect((await replica.call('POST', '/v1/messages', { body })).status).toBe(202);
    await untilApplied('home', key, 1);
    await home.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload) VALUES ('alert', 'urn:sluice:alerts', 'x', $1, $2, '{}')`,
      [key, slotOf(key)],
    );
    const stored = `SELECT payload::text AS payload FROM inbox WHERE id = 'exact'`;
    const before = await home.query(stored);
    await moved('b', slotOf(key));
    expect(before).toHaveLength(1);
    expect(await b.query(stored)).toEqual(before);
    await until(async () => {
      const alerts = await home.query<{ status: string }>(`SELECT status FROM inbox WHERE id = 'alert'`);
      return alerts[0]?.status === 'finished';
    });
  });

  it('counts on in the new cell, behind what has come with it', async () => {
    const key = keyIn('b', 105);
    for (let n = 1; n <= 3; n++) await post(key, n);
    await untilApplied('b', key, 3);
    await moved('home', slotOf(key));
    await post(key, 4);
    await untilApplied('home', key, 4);
    const rows = await home.query<{ id: string; position: string }>(
      'SELECT id, position FROM inbox WHERE key = $1 ORDER BY position',
      [key],
    );
    expect(rows.map(({ id }) => id)).toEqual([1, 2, 3, 4].map((n) => `${key}-${n}`));
    const residues = rows.map(({ position }) => Number(BigInt(position) % 256n));
    expect(residues).toEqual([1, 1, 1, 0]);
    const applied = await home.query<{ id: string }>('SELECT id FROM inbox WHERE key = $1 ORDER BY applied', [
      key,
    ]);
    expect(applied.map(({ id }) => id)).toEqual(rows.map(({ id }) => id));
  });

  it('takes along a message that is due at that very moment, and gets another position by that', async () => {
    const key = keyIn('home', 107);
    const due = { type: 'test/count', key, id: 'due', payload: { n: 1 }, dueAt: '2999-01-01T00:00:00Z' };
    expect((await replica.call('POST', '/v1/messages', { body: due })).status).toBe(202);
    const waking = await openSession(home);
    await waking.query('BEGIN');
    await waking.query(
      `UPDATE inbox SET status = 'pending', waits = NULL, position = nextval('inbox_position_seq') WHERE id = 'due'`,
    );
    const { body } = await requested('b', slotOf(key));
    await untilBlocked(home);
    await waking.query('COMMIT');
    await waking.close();
    await until(async () => {
      const { items } = (await replica.call('GET', '/v1/cells/moves')).body;
      return items.find(({ id }: { id: string }) => id === body.items[0].id).state === 'done';
    });
    await untilApplied('b', key, 1);
    expect([await rowsOf('home', key), await ledgerOf('home', key)]).toEqual([0, undefined]);
  });

  it('is replayed whole by time, although its positions are lower than those of older messages', async () => {
    const key = keyIn('home', 106);
    const since = new Date().toISOString();
    await post(key, 1);
    await untilApplied('home', key, 1);
    await until(() => deliveredOf(key).length === 1);
    await moved('b', slotOf(key));
    const body = { since };
    const replay = await replica.call('POST', '/v1/listeners/all/replay?cell=b', { body });
    expect([replay.status, replay.text]).toEqual([202, expect.any(String)]);
    await until(() => deliveredOf(key).length === 2);
  });
});

describe('a slot that cannot be moved', () => {
  it('is refused if one of its messages is in a topic', async () => {
    const key = keyIn('home', 110);
    expect(
      (await replica.call('PUT', '/v1/topics/kept', { body: { partitions: 1, types: ['test/*'] } })).status,
    ).toBe(201);
    await until(async () => {
      const n = (await rowsOf('home', key)) + 1;
      await post(key, n);
      await untilApplied('home', key, n);
      return (await home.query('SELECT FROM topic_entry')).length > 0;
    });
    const [refused] = await moved('b', slotOf(key), 'undone');
    expect(refused.error).toContain('the topic "kept" has messages of the slot');
    expect((await replica.call('DELETE', '/v1/topics/kept')).status).toBe(204);
    const n = await rowsOf('home', key);
    await post(key, n + 1);
    await untilApplied('home', key, n + 1);
  });

  it('goes on if the other cell knows another message by the same id, which nothing can decide', async () => {
    const key = keyIn('home', 111);
    await post(key, 1, 'same');
    await post(keyIn('b', 111), 1, 'same');
    await untilApplied('home', key, 1);
    const [undone] = await moved('b', slotOf(key), 'undone');
    expect(undone.error).toContain('inbox_identity');
    await post(key, 2);
    await untilApplied('home', key, 2);
    expect(await ledgerOf('home', key)).toMatchObject({ applied: 2, wrong: 0 });
    expect(await rowsOf('b', key)).toBe(0);
  });

  it('waits for a delivery in flight, while posts are accepted', async () => {
    const key = keyIn('home', 112);
    const waiting: (() => void)[] = [];
    receiver.respond = (received, response, count) => {
      if (received.body.key !== key) return ok(received, response, count);
      waiting.push(() => ok(received, response, count));
    };
    await post(key, 1);
    await until(() => waiting.length === 1);
    const { body } = await requested('b', slotOf(key));
    const stateOf = async () =>
      (await replica.call('GET', '/v1/cells/moves')).body.items.find(
        ({ id }: { id: string }) => id === body.items[0].id,
      ).state;
    const holds = `SELECT FROM hold WHERE note LIKE 'move:%'`;
    await until(async () => (await home.query(holds)).length > 0);
    expect(await post(key, 2)).toBe(202);
    expect(await stateOf()).toBe('preparing');
    receiver.respond = ok;
    waiting[0]!();
    await until(async () => (await stateOf()) === 'done');
    await untilApplied('b', key, 2);
    await until(() => deliveredOf(key).length === 2);
  });

  it('is refused if a read model does not say how its rows are found', async () => {
    const key = keyIn('home', 113);
    await home.query('CREATE TABLE tested.other (id text)');
    const [refused] = await moved('b', slotOf(key), 'undone');
    await home.query('DROP TABLE tested.other');
    expect(refused.error).toContain('its table "other"');
  });

  it('is undone if the new cell goes away before everything has arrived, once that is back', async () => {
    const key = keyIn('home', 115);
    await post(key, 1);
    await untilApplied('home', key, 1);
    const stop = await stopAt(b, 'cell_marker', 'UPDATE ON cell_marker FOR EACH ROW');
    const { body } = await requested('b', slotOf(key));
    await stop.reached(20_000);
    await cells.makeAway(replica);
    expect(await post(key, 2)).toBe(503);
    expect((await replica.call('GET', `/v1/keys/${key}`)).status).toBe(503);
    expect((await replica.call('GET', `/v1/messages/${key}-1`)).status).toBe(503);
    await stop.goOn();
    await cells.bringBack(replica);
    await until(async () => {
      const { items } = (await replica.call('GET', '/v1/cells/moves')).body;
      return items.find(({ id }: { id: string }) => id === body.items[0].id).state === 'undone';
    });
    await until(async () => (await post(key, 2)) === 202);
    await untilApplied('home', key, 2);
    expect(await ledgerOf('home', key)).toMatchObject({ applied: 2, wrong: 0 });
    await until(() => deliveredOf(key).length === 2);
  });

  it('is opened again if nobody moves it any more', async () => {
    const key = keyIn('home', 114);
    await home.query(
      `UPDATE cell_slot SET version = version + 1, moving_to = 1, mover = gen_random_uuid(), mover_until = now() WHERE slot = $1`,
      [slotOf(key)],
    );
    await until(async () => (await post(key, 1)) === 202);
  });
});

describe('a request to move', () => {
  it.each([
    ['b', '', 422],
    ['b', '256', 422],
    ['c', '1', 404],
  ])('to %s of %j is answered %d', async (to, slots, code) => {
    expect((await requested(to, slots)).status).toBe(code);
  });

  it('is refused while the slot moves, and does nothing if it is there', async () => {
    const slot = slotOf(keyIn('b', 120));
    expect((await requested('b', slot)).body.items).toEqual([]);
    receiver.respond = hang;
    const key = keyIn('home', 121);
    await post(key, 1);
    await until(() => receiver.received.some(({ body }) => body.key === key));
    expect((await requested('b', slotOf(key))).status).toBe(202);
    const again = await requested('b', slotOf(key));
    expect([again.status, again.body.type]).toEqual([409, 'urn:sluice:problems/conflict']);
  });
});

describe('sluice cells', () => {
  async function sluice(...given: string[]) {
    const out: string[] = [];
    const error: string[] = [];
    const terminal = {
      write: (text: string) => void out.push(text),
      writeError: (text: string) => void error.push(text),
      isTty: false,
      isErrorTty: false,
    };
    const environment = { SLUICE_URL: replica.url, SLUICE_API_KEY: ADMIN_KEY };
    const stopping = new AbortController().signal;
    const code = await runCli(given, { environment, stopping, stdin: Readable.from([]), terminal });
    return { code, out: out.join(''), error: error.join('') };
  }

  it('shows the cells, moves a slot, and says why one was not moved', async () => {
    receiver.respond = ok;
    const slot = slotOf(keyIn('home', 130));
    const moves = await sluice('cells', 'move', 'b', String(slot));
    expect([moves.code, moves.error]).toEqual([0, '']);
    expect(moves.out).toMatch(new RegExp(`${slot} +home +b +done`));
    expect((await sluice('cells')).out).toMatch(/home \(home\) +up +12\d/);
    expect((await sluice('cells', 'moves')).out).toContain('PAUSE MS');
    expect((await sluice('cells', 'move', 'b', String(slot))).out).toBe(
      'nothing to move: the slots are in b\n',
    );
    await b.query('CREATE TABLE tested.other (id text)');
    const undone = await sluice('cells', 'move', 'home', String(slot));
    await b.query('DROP TABLE tested.other');
    expect([undone.code, undone.error]).toEqual([
      1,
      expect.stringContaining('was not moved: the read model "tested"'),
    ]);
    expect((await sluice('cells', 'steal')).code).toBe(2);
  });
});
