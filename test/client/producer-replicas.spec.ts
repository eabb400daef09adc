import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type Producer, Sluice } from '../../packages/client/src/node.ts';
import { PRODUCE_KEY } from '../support/app.ts';
import { apiSettings, type BuiltService, build, run } from '../support/built-service.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';

let database: TestDatabase;
const services: BuiltService[] = [];

beforeAll(async () => {
  build();
  database = await createDatabase();
});
afterEach(async () => {
  for (const service of services.splice(0)) {
    service.child.kill('SIGCONT');
    service.kill();
    await service.exit();
  }
});
afterAll(() => database.drop());

describe('a producer of replicas that fail', () => {
  it('B5 loses and doubles nothing when a replica freezes with a request, and wakes up with it', async () => {
    const [a, b] = [await start(), await start()];
    const sends = new Sends(await producerOf([a.url, b.url]));
    await sends.add(200);
    a.service.child.kill('SIGSTOP');
    await sends.add(200);
    a.service.child.kill('SIGCONT');
    // What was sent to it while it was frozen is a repeat now.
    await until(async () => (await fetch(`${a.url}/readyz`)).ok);
    await sends.add(200);
    b.service.child.kill('SIGSTOP');
    await sends.add(200);
    await sends.expectAllStoredOnce();
  });

  it('B5 loses and doubles nothing when replicas are killed, all of them at last, and started again', async () => {
    const [a, b] = [await start(), await start()];
    const sends = new Sends(await producerOf([a.url, b.url]));
    await sends.add(100);
    const during = sends.add(1_000);
    a.service.kill();
    await during;
    const [waiting] = [sends.add(300), b.service.kill()];
    await b.service.exit();
    await start(a.port);
    await waiting;
    await sends.expectAllStoredOnce();
  });

  it('B5 fails no send while replicas are stopped one after the other', async () => {
    const [a, b] = [await start(), await start()];
    const sends = new Sends(await producerOf([a.url, b.url]));
    const during = [sends.add(500)];
    for (const one of [a, b]) {
      one.service.child.kill('SIGTERM');
      during.push(sends.add(500));
      expect(await one.service.exit()).toBe(0);
      await start(one.port);
    }
    await Promise.all(during);
    await sends.expectAllStoredOnce();
  });
});

let producers = 0;

async function producerOf(url: string[]): Promise<Producer> {
  producers += 1;
  const sluice = new Sluice({ url, apiKey: PRODUCE_KEY, timeout: '1s' });
  return sluice.producer({ id: `p-${producers}`, maxBatch: 20, linger: 1, retries: 12 });
}

/** Sends numbered messages and remembers them. */
class Sends {
  private count = 0;

  constructor(private readonly producer: Producer) {}

  async add(count: number): Promise<void> {
    const sent = Array.from({ length: count }, () => {
      const n = this.count++;
      return this.producer.send({ type: 't', key: `${this.producer.id}-${n % 4}`, payload: n });
    });
    for (const { gap } of await Promise.all(sent)) expect(gap).toBeUndefined();
  }

  async expectAllStoredOnce(): Promise<void> {
    const rows = await database.query<{ sequence: string; payload: number }>(
      'SELECT sequence, payload FROM inbox WHERE producer = $1 ORDER BY position',
      [this.producer.id],
    );
    const all = Array.from({ length: this.count }, (_, n) => n);
    expect(rows.map(({ payload }) => payload)).toEqual(all);
    expect(rows.map(({ sequence }) => Number(sequence))).toEqual(all);
    const [state] = await database.query('SELECT last::int, missing::text FROM producer WHERE id = $1', [
      this.producer.id,
    ]);
    expect(state).toEqual({ last: this.count - 1, missing: '{}' });
  }
}

async function start(port = '0'): Promise<{ service: BuiltService; url: string; port: string }> {
  const service = run(apiSettings(database.url, `produce=produce:${PRODUCE_KEY}`, port));
  services.push(service);
  const url = await service.url();
  return { service, url, port: new URL(url).port };
}
