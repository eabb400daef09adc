import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { slotOf } from '../../src/cells/slot-of.ts';
import { ADMIN_KEY, startApp, type TestApp } from '../support/app.ts';
import { keyIn, twoCells } from '../support/cells.ts';
import { withClient } from '../support/client.ts';
import { createDatabase, urlOf } from '../support/database.ts';
import { until } from '../support/until.ts';

const cells = twoCells();
const { home, b } = cells;
let replica: TestApp;

beforeAll(async () => {
  replica = await cells.start();
});

const message = (key: string) => ({ type: 'urn:test:plain', key, payload: {} });
const post = (key: string) => replica.call('POST', '/v1/messages', { body: message(key) });
const cellB = async () => (await replica.call('GET', '/v1/cells')).body.items[1];

describe('a slot that is closed', () => {
  it('costs the posts of other slots nothing, also those in the same commit', async () => {
    const closed = keyIn('b', 1);
    const open = Array.from({ length: 12 }, (_, nth) => keyIn('b', 2 + nth)).filter(
      (key) => slotOf(key) !== slotOf(closed),
    );
    await b.query('UPDATE cell_fence SET open = false WHERE slot = $1', [slotOf(closed)]);
    const replies = Promise.all([...open, ...open].flatMap((key) => [post(closed), post(key)]));
    const statuses = (await replies).map(({ status }) => status);
    await b.query('UPDATE cell_fence SET open = true WHERE slot = $1', [slotOf(closed)]);
    expect(statuses.filter((_, nth) => nth % 2 === 1)).toEqual(Array(open.length * 2).fill(202));
    expect(statuses.filter((_, nth) => nth % 2 === 0)).toEqual(Array(open.length * 2).fill(503));
  });

  it('is waited for while the catalogue says that it moves', async () => {
    const key = keyIn('home', 20);
    const move = (moving: boolean) =>
      home.query(
        moving
          ? `UPDATE cell_slot SET version = version + 1, moving_to = 1, mover = gen_random_uuid(), mover_until = now() + interval '1 hour' WHERE slot = $1`
          : 'UPDATE cell_slot SET version = version + 1, moving_to = NULL, mover = NULL, mover_until = NULL WHERE slot = $1',
        [slotOf(key)],
      );
    const isOpen = async (open: boolean) =>
      (await home.query('SELECT FROM cell_fence WHERE slot = $1 AND open = $2', [slotOf(key), open])).length >
      0;
    const body = { cron: '* * * * * *', type: 'urn:test:tick', payload: {} };
    await move(true);
    await until(() => isOpen(false));
    const held = await post(key);
    expect([held.status, held.body.type]).toEqual([503, 'urn:sluice:problems/cell-away']);
    // Its ticks wait, those of others go on: they are posted in one transaction.
    for (const [name, of] of [
      ['moving', key],
      ['going-on', keyIn('home', 21)],
    ] as const)
      expect(
        (await replica.call('PUT', `/v1/schedules/${name}`, { body: { ...body, key: of } })).status,
      ).toBe(201);
    const ticksOf = async (name: string) =>
      (await home.query('SELECT FROM inbox WHERE starts_with(id, $1)', [`${name}/`])).length;
    await until(async () => (await ticksOf('going-on')) > 0);
    expect(await ticksOf('moving')).toBe(0);

    const waiting = post(key);
    await move(false);
    expect((await waiting).status).toBe(202);
    await until(async () => (await ticksOf('moving')) > 0);
    for (const name of ['moving', 'going-on']) await replica.call('DELETE', `/v1/schedules/${name}`);
  });
});

describe('the database of a cell', () => {
  it('is refused while its URL leads to that of another cell', async () => {
    await b.query('UPDATE cell_self SET number = number + 1');
    await until(async () => (await cellB()).state === 'refused');
    expect((await cellB()).reason).toContain('not this cell');
    expect((await post(keyIn('b', 30))).status).toBe(503);
    const defined = await replica.call('PUT', '/v1/topics/unknown-there', { body: { partitions: 1 } });
    expect(defined.headers.get('sluice-cells-behind')).toBe('b');
    expect(await b.query('SELECT FROM topic')).toEqual([]);
    await b.query('UPDATE cell_self SET number = number - 1');
    await until(async () => (await cellB()).state === 'up');
    expect(await b.query('SELECT name FROM topic')).toEqual([{ name: 'unknown-there' }]);
  });

  it('must be empty when it becomes one', async () => {
    const used = await createDatabase();
    try {
      const alone = await startApp(used);
      const body = { types: ['urn:test:*'], url: 'http://127.0.0.1:1/' };
      await alone.call('POST', '/v1/messages', { body: message('c-1') });
      await alone.call('PUT', '/v1/listeners/alone', { body });
      await alone.close();
      const other = await cells.start({ CELLS: `home=${home.url},b=${b.url},c=${used.url}` });
      const [, , refused] = (await other.call('GET', '/v1/cells')).body.items;
      expect(refused).toMatchObject({ state: 'refused', reason: expect.stringContaining('empty database') });
      expect(await used.query('SELECT FROM cell_self')).toEqual([]);
      await cells.stop(other);
    } finally {
      await used.drop();
    }
  });

  it('must sort text by code points, as lists of several cells are merged', async () => {
    const server = process.env.SLUICE_TEST_SERVER!;
    const name = `sluice_test_${randomUUID().replaceAll('-', '')}`;
    const create = `CREATE DATABASE ${name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en'`;
    await withClient(server, (client) => client.query(create));
    const other = await cells.start({ CELLS: `home=${home.url},b=${b.url},en=${urlOf(server, name)}` });
    const refused = (await other.call('GET', '/v1/cells')).body.items.at(-1);
    expect(refused).toMatchObject({
      name: 'en',
      state: 'refused',
      reason: expect.stringContaining('locale C'),
    });
    await cells.stop(other);
    await withClient(server, (client) => client.query(`DROP DATABASE ${name} WITH (FORCE)`));
  });

  it('is no home of a second catalogue, which would accept the keys of another cell', async () => {
    const stray = await createDatabase();
    try {
      const start = (other: string) => startApp(stray, { CELLS: `home=${stray.url},b=${other}` });
      await expect(start(b.url)).rejects.toThrow(/"b" belongs to a catalogue, but the database of "home"/);
      await expect(start('postgres://127.0.0.1:1/nowhere')).rejects.toThrow(
        /the first start needs all cells/,
      );
      expect(await stray.query('SELECT FROM cell_self')).toEqual([]);
    } finally {
      await stray.drop();
    }
  });

  it('is not served without CELLS', async () => {
    await expect(startApp(b)).rejects.toThrow(/cell "b".*CELLS/);
    await expect(startApp(home)).rejects.toThrow(/cell "home".*CELLS/);
  });
});

describe('a replica of several cells', () => {
  it('has BODIES_LIMIT once', async () => {
    const small = await cells.start({}, { overrides: { bodiesLimit: 2_000 } });
    const { hostname, port } = new URL(small.url);
    const socket = connect(Number(port), hostname);
    const head = `POST /v1/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${ADMIN_KEY}\r\n`;
    socket.write(`${head}content-type: application/json\r\ncontent-length: 1900\r\n\r\n${' '.repeat(1_800)}`);
    const hold = () =>
      small.call('PUT', `/v1/keys/${keyIn('b', 40)}/hold`, { body: { reason: 'x'.repeat(400) } });
    await until(async () => (await hold()).status === 503);
    socket.destroy();
    await until(async () => (await hold()).status === 200);
    await cells.stop(small);
  });
});
