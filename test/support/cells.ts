import { afterAll, beforeAll } from '@jest/globals';
import { slotOf } from '../../src/cells/slot-of.ts';
import type { Settings } from '../../src/config/settings.ts';
import type { ReadModel } from '../../src/contract/read-model.ts';
import { startApp, type TestApp } from './app.ts';
import { createDatabase, type TestDatabase } from './database.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';
import { until } from './until.ts';

interface StartOptions {
  readonly readModels: readonly ReadModel[];
  readonly overrides: Partial<Settings>;
}

interface TwoCells {
  readonly home: TestDatabase;
  readonly b: TestDatabase;
  /** Between the replicas and cell b. */
  readonly wire: TcpProxy;
  /** A replica on both cells, closed after the tests. */
  start(environment?: Record<string, string>, more?: Partial<StartOptions>): Promise<TestApp>;
  stop(replica: TestApp): Promise<void>;
  /** Resolves when the replica has noticed. */
  makeAway(replica: TestApp, cell?: 'home' | 'b'): Promise<void>;
  bringBack(replica: TestApp, cell?: 'home' | 'b'): Promise<void>;
}

/** Two databases as cells `home` (slots 0 to 127) and `b` (the others). */
export function twoCells(common: Record<string, string> = {}): TwoCells {
  const home = {} as TestDatabase;
  const b = {} as TestDatabase;
  const wire = {} as TcpProxy;
  const homeWire = {} as TcpProxy;
  const replicas = new Set<TestApp>();
  beforeAll(async () => {
    Object.assign(home, await createDatabase());
    Object.assign(b, await createDatabase());
    // With its getters, which Object.assign would replace by their values.
    Object.defineProperties(wire, Object.getOwnPropertyDescriptors(await startTcpProxy(b.url)));
    Object.defineProperties(homeWire, Object.getOwnPropertyDescriptors(await startTcpProxy(home.url)));
  });
  afterAll(async () => {
    await Promise.all([...replicas].map((replica) => replica.close()));
    await wire.close();
    await homeWire.close();
    await home.drop();
    await b.drop();
  });
  const untilState = (replica: TestApp, cell: 'home' | 'b', state: string) =>
    until(async () => (await replica.call('GET', '/readyz')).body.cells[cell] === state);
  const parts = { home: { database: home, line: homeWire }, b: { database: b, line: wire } };
  return {
    home,
    b,
    wire,
    async makeAway(replica, cell = 'b') {
      const { database, line } = parts[cell];
      line.switchTo('postgres://127.0.0.1:1/nowhere');
      await database.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND application_name LIKE 'sluice%' AND application_name <> 'sluice test'`);
      await untilState(replica, cell, 'away');
    },
    async bringBack(replica, cell = 'b') {
      const { database, line } = parts[cell];
      line.switchTo(database.url);
      await untilState(replica, cell, 'up');
    },
    async start(environment, { readModels, overrides } = {}) {
      const CELLS = `home=${homeWire.url},b=${wire.url}`;
      const replica = await startApp(
        { ...home, url: homeWire.url },
        { CELLS, ...common, ...environment },
        readModels,
        overrides,
      );
      replicas.add(replica);
      return replica;
    },
    async stop(replica) {
      replicas.delete(replica);
      await replica.close();
    },
  };
}

/** The n-th key of the form c-<number> whose slot is in the cell, with the slots as they are divided at first. */
export function keyIn(cell: 'home' | 'b', nth = 0): string {
  for (let number = 0; ; number++) {
    const key = `c-${number}`;
    if (slotOf(key) < 128 === (cell === 'home') && nth-- === 0) return key;
  }
}
