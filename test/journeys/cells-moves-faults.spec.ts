import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { readModel } from '../support/ledger-read-model.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { type Replica, startReplicaProcess } from '../support/replicas.ts';
import { faultsOf, keysOf, SlotLoad, Taken } from '../support/slot-load.ts';
import { Server } from '../support/standby.ts';
import { stopAt } from '../support/stop-at.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const LEASE_MS = 1_000;
const SLOT = 7;
const OTHER_SLOT = 200;
/** On a loaded machine; the times are printed. */
const PAUSE_LIMIT_MS = 60_000;
/** As long as a loaded machine may take. */
const LONG_MS = 180_000;

let server: Server;
let home: TestDatabase;
let b: TestDatabase;
let wire: TcpProxy;
let CELLS: string;
let replica: TestApp;
let receiver: Receiver;
let taken: Taken;
let load: SlotLoad;
const movers: Replica[] = [];

beforeAll(async () => {
  server = await Server.start({ fsync: 'off' });
  home = await createDatabase();
  b = await createDatabase({ server: server.postgres.url });
  wire = await startTcpProxy(b.url);
  CELLS = `home=${home.url},b=${wire.url}`;
  receiver = await startReceiver();
  taken = new Taken(receiver, 25);
  const settings = { CELLS, EGRESS_ALLOW: '127.0.0.0/8', ROLES: 'api,inbox,outbox', OUTBOX_POLL: '100ms' };
  replica = await startApp(home, { ...settings, SECRETS_KEYS }, [readModel]);
  const body = { types: ['test/*'], url: receiver.url, retrySchedule: Array(9).fill('100ms') };
  const put = await replica.call('PUT', '/v1/listeners/all', { body });
  expect([put.status, put.text]).toEqual([201, expect.any(String)]);
  // Compiling it takes the whole machine.
  await startMover();
  load = new SlotLoad(replica, [...keysOf(SLOT, 6), ...keysOf(OTHER_SLOT, 2)]);
}, 3 * LONG_MS);
afterAll(async () => {
  await load?.stop();
  for (const mover of movers) mover.signal('SIGKILL');
  await Promise.all(movers.map(({ ended }) => ended));
  await replica?.close();
  await receiver?.close();
  await wire?.close();
  await home?.drop();
  await b?.drop();
  await server?.remove();
});

const SECRETS_KEYS = `k1=${'A'.repeat(43)}=`;

/** A replica that only moves slots, in a process of its own. */
async function startMover(): Promise<Replica> {
  const settings = { CELLS, ROLES: 'upkeep', SECRETS_KEYS, EGRESS_ALLOW: '127.0.0.0/8' };
  const overrides = { inboxLease: LEASE_MS };
  const mover = startReplicaProcess({
    ...{ databaseUrl: home.url, settings, overrides },
    readModel: 'ledger-read-model',
  });
  movers.push(mover);
  await mover.ready;
  return mover;
}

async function request(to: string, slot = SLOT): Promise<string> {
  const { status, body } = await replica.call('POST', `/v1/cells/${to}/slots`, {
    body: { slots: String(slot) },
  });
  expect(status).toBe(202);
  return body.items[0].id;
}

interface Ended {
  readonly state: string;
  readonly error: string | null;
  readonly pauseMs: number | null;
  readonly rows: number | null;
  readonly endedAt: string | null;
}

async function ended(id: string): Promise<Ended> {
  const find = async () => {
    const { body } = await replica.call('GET', '/v1/cells/moves');
    return body.items.find((one: { id: string }) => one.id === id);
  };
  return until(async () => {
    const move = await find();
    return move?.endedAt ? move : undefined;
  }, LONG_MS);
}

async function cellOfSlot(): Promise<'home' | 'b'> {
  const [row] = await home.query<{ cell: number }>('SELECT cell FROM cell_slot WHERE slot = $1', [SLOT]);
  return row!.cell === 0 ? 'home' : 'b';
}

type Step = readonly [
  step: string,
  where: 'home' | 'from' | 'to',
  table: string,
  when: string,
  state: string,
];

const STEPS: readonly Step[] = [
  [
    'before posts wait',
    ...([
      'home',
      'cell_move',
      `UPDATE ON cell_move FOR EACH ROW WHEN (NEW.state = 'closed' AND OLD.state = 'preparing')`,
    ] as const),
    'undone',
  ],
  ['before the rows are taken out', 'from', 'cell_parcel', 'INSERT ON cell_parcel FOR EACH ROW', 'undone'],
  ['before anything arrives', 'to', 'cell_marker', 'INSERT ON cell_marker FOR EACH ROW', 'undone'],
  ['before the COMMIT that decides', 'to', 'cell_marker', 'UPDATE ON cell_marker FOR EACH ROW', 'undone'],
  [
    'between that COMMIT and the switch',
    ...([
      'home',
      'cell_slot',
      'UPDATE ON cell_slot FOR EACH ROW WHEN (OLD.moving_to IS NOT NULL AND NEW.moving_to IS NULL)',
    ] as const),
    'done',
  ],
  ['before the old cell is cleaned up', 'from', 'cell_parcel', 'DELETE ON cell_parcel FOR EACH ROW', 'done'],
];

describe('a slot that moves under load', () => {
  it(
    'loses nothing, there and back',
    async () => {
      await startMover();
      await until(() => load.total > 100);
      for (const to of ['b', 'home', 'b', 'home']) {
        const before = load.total;
        const move = await ended(await request(to));
        expect([move.state, move.error]).toEqual(['done', null]);
        process.stdout.write(`moved to ${to}: ${move.rows} rows, posts waited ${move.pauseMs} ms\n`);
        expect(move.pauseMs).toBeLessThan(PAUSE_LIMIT_MS);
        await until(() => load.total > before + 50);
      }
    },
    4 * LONG_MS,
  );

  it.each(STEPS)(
    'survives the death of its mover %s',
    async (_step, where, table, when, state) => {
      const from = await cellOfSlot();
      const to = from === 'home' ? 'b' : 'home';
      const database = { home, from: from === 'home' ? home : b, to: to === 'home' ? home : b }[where];
      const stop = await stopAt(database, table, when);
      const id = await request(to);
      await stop.reached(LONG_MS);
      for (const mover of movers.splice(0)) {
        mover.signal('SIGKILL');
        await mover.ended;
      }
      await stop.goOn();
      await startMover();
      const move = await ended(id);
      expect(move.state).toBe(state);
      expect(await cellOfSlot()).toBe(state === 'done' ? to : from);
      const before = load.total;
      await until(() => load.total > before + 30, LONG_MS);
    },
    4 * LONG_MS,
  );

  it(
    'was complete and in order all the time',
    async () => {
      await load.stop();
      const databases = [home, b];
      await until(async () => (await faultsOf(load, databases)).length === 0, LONG_MS).catch(() => undefined);
      expect(await faultsOf(load, databases)).toEqual([]);
      await until(() => taken.faultsOf(load).length === 0, LONG_MS).catch(() => undefined);
      expect(taken.faultsOf(load)).toEqual([]);
      const left =
        'SELECT (SELECT count(*) FROM cell_parcel_row)::int + (SELECT count(*) FROM cell_parcel)::int AS n';
      for (const database of databases) expect(await database.query(left)).toEqual([{ n: 0 }]);
      process.stdout.write(
        `${load.total} messages, ${load.refused} posts answered 503 and repeated, slowest accepted after ${Math.round(load.slowestMs)} ms\n`,
      );
    },
    4 * LONG_MS,
  );
});
