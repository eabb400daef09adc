import { afterAll, beforeAll } from '@jest/globals';
import { slotOf } from '../../src/cells/slot-of.ts';
import { startApp, type TestApp } from './app.ts';
import { createDatabase, type TestDatabase } from './database.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';
import { until } from './until.ts';

interface TwoCells {
  readonly home: TestDatabase;
  readonly b: TestDatabase;
  /** Between the replicas and cell b. */
  readonly wire: TcpProxy;
  /** A replica on both cells, closed after the tests. */
  start(environment?: Record<string, string>): Promise<TestApp>;
  stop(replica: TestApp): Promise<void>;
  /** Cell b; resolves when the replica has noticed. */
  makeAway(replica: TestApp): Promise<void>;
  bringBack(replica: TestApp): Promise<void>;
}

/** Two databases as cells `home` (slots 0 to 127) and `b` (the others). */
export function twoCells(common: Record<string, string> = {}): TwoCells {
  const home = {} as TestDatabase;
  const b = {} as TestDatabase;
  const wire = {} as TcpProxy;
  const replicas = new Set<TestApp>();
  beforeAll(async () => {
    Object.assign(home, await createDatabase());
    Object.assign(b, await createDatabase());
    // With its getters, which Object.assign would replace by their values.
    Object.defineProperties(wire, Object.getOwnPropertyDescriptors(await startTcpProxy(b.url)));
  });
  afterAll(async () => {
    await Promise.all([...replicas].map((replica) => replica.close()));
    await wire.close();
    await home.drop();
    await b.drop();
  });
  const untilB = (replica: TestApp, state: string) =>
    until(async () => (await replica.call('GET', '/readyz')).body.cells.b === state);
  return {
    home,
    b,
    wire,
    async makeAway(replica) {
      wire.switchTo('postgres://127.0.0.1:1/nowhere');
      await b.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND application_name LIKE 'sluice%' AND application_name <> 'sluice test'`);
      await untilB(replica, 'away');
    },
    async bringBack(replica) {
      wire.switchTo(b.url);
      await untilB(replica, 'up');
    },
    async start(environment) {
      const CELLS = `home=${home.url},b=${wire.url}`;
      const replica = await startApp(home, { CELLS, ...common, ...environment });
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
