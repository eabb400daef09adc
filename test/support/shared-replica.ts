import { afterAll, beforeAll } from '@jest/globals';
import type { Settings } from '../../src/config/settings.ts';
import type { ReadModel } from '../../src/contract/read-model.ts';
import { startApp, type TestApp } from './app.ts';
import { createDatabase, type TestDatabase } from './database.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

interface SharedReplica {
  readonly database: TestDatabase;
  readonly replica: TestApp;
  /** Starts the replica again, after a test that closed it. */
  start(): Promise<void>;
}

/** One replica on its own database, for all tests of a file or of a describe block. The parameters are those of `startApp()`. */
export function sharedReplica(
  environment?: Record<string, string>,
  readModels?: readonly ReadModel[],
  overrides?: Partial<Settings>,
): SharedReplica {
  // Filled in before the first test, so that a spec can destructure them where it declares them.
  const database = {} as TestDatabase;
  const replica = {} as TestApp;

  const start = async () => {
    Object.assign(replica, await startApp(database, environment, readModels, overrides));
  };

  beforeAll(async () => {
    Object.assign(database, await createDatabase());
    await start();
  });
  afterAll(async () => {
    await replica.close();
    await database.drop();
  });
  return { database, replica, start };
}

/** Several replicas on one database, for all tests of a file. The parameters are those of `startApp()`. */
export function sharedReplicas(
  count: number,
  environment?: Record<string, string>,
  readModels?: readonly ReadModel[],
): { readonly database: TestDatabase; readonly replicas: TestApp[] } {
  const database = {} as TestDatabase;
  const replicas: TestApp[] = [];
  beforeAll(async () => {
    Object.assign(database, await createDatabase());
    for (let n = 0; n < count; n++) replicas.push(await startApp(database, environment, readModels));
  });
  afterAll(async () => {
    for (const replica of replicas) await replica.close();
    await database.drop();
  });
  return { database, replicas };
}

/** One replica, with a proxy between the replica and the database, which can break or silence their connections. */
export function sharedReplicaBehindProxy(environment: Record<string, string>): {
  readonly database: TestDatabase;
  readonly proxy: TcpProxy;
  readonly replica: TestApp;
} {
  const database = {} as TestDatabase;
  const proxy = {} as TcpProxy;
  const replica = {} as TestApp;
  beforeAll(async () => {
    Object.assign(database, await createDatabase());
    // With its getters, which Object.assign would replace by their values.
    Object.defineProperties(proxy, Object.getOwnPropertyDescriptors(await startTcpProxy(database.url)));
    Object.assign(replica, await startApp({ ...database, url: proxy.url }, environment));
  });
  afterAll(async () => {
    await replica.close();
    await proxy.close();
    await database.drop();
  });
  return { database, proxy, replica };
}
