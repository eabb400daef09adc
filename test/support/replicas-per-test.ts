import { afterAll, afterEach, beforeAll, expect } from '@jest/globals';
import { SettingsError } from '../../src/config/settings.ts';
import { startApp, type TestApp } from './app.ts';
import { createDatabase, type TestDatabase } from './database.ts';

type Environment = Record<string, string>;

/** One database per test file, on which each test starts its own replicas. After each test the replicas, all listeners, topics, groups and the audit log are removed. */
export function replicasPerTest(common: Environment) {
  let database: TestDatabase;
  const replicas: TestApp[] = [];

  beforeAll(async () => {
    database = await createDatabase();
  });
  afterEach(async () => {
    await Promise.all(replicas.splice(0).map((replica) => replica.close()));
    await database.query('DELETE FROM listener');
    await database.query('DELETE FROM audit');
    await database.query(
      'TRUNCATE topic, topic_partition, topic_entry, consumer_group, group_member, group_cursor',
    );
  });
  afterAll(() => database.drop());

  async function start(environment: Environment): Promise<TestApp> {
    const replica = await startApp(database, { ...common, ...environment });
    replicas.push(replica);
    return replica;
  }

  /** The message of the settings error with which a replica fails to start. */
  async function refusal(environment: Environment): Promise<string> {
    const error = await start(environment).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(SettingsError);
    return (error as Error).message;
  }

  /** Stops a replica before the test is over. */
  async function stop(replica: TestApp): Promise<void> {
    replicas.splice(replicas.indexOf(replica), 1);
    await replica.close();
  }

  const query: TestDatabase['query'] = (sql, parameters) => database.query(sql, parameters);
  return { start, stop, refusal, query };
}
