import { setTimeout as pause } from 'node:timers/promises';
import { Additions } from './additions/additions.ts';
import { Api } from './api.ts';
import type { Bug } from './bugs.ts';
import type { Behaviour } from './chain.ts';
import { check } from './check.ts';
import { Consumers } from './groups/consumers.ts';
import type { ScenarioContext } from './guard-scenarios.ts';
import type { Posted } from './history.ts';
import { preciseNow } from './precise-now.ts';
import { Workers } from './queues/workers.ts';
import { Random } from './random.ts';
import { TestBed } from './test-bed.ts';
import type { Violation } from './violation.ts';

const SEED = 7;
const IDLE_TIMEOUT_MS = 30_000;
const MESSAGES = 40;

/**
 * A situation of consumers in which a guard is needed, on two replicas without some guards, with messages in the topics and
 * queues. What the situation leaves is done by ordinary consumers and workers.
 */
export async function consumingScenario(
  without: readonly Bug[],
  { postgres, version }: ScenarioContext,
  play: (driver: ConsumingDriver) => Promise<void>,
): Promise<readonly Violation[]> {
  const options = { seed: SEED, postgres, version, replicas: 2, skew: false, without, consuming: true };
  const bed = await TestBed.prepare(options);
  try {
    const driver = new ConsumingDriver(bed);
    await driver.post(...Array.from({ length: MESSAGES }, (_, n) => `key-m${n}`));
    await play(driver);
    driver.consumers.start();
    driver.workers.start();
    for (const queue of driver.additions.added.queues) driver.workers.startAt(queue);
    await bed.waitUntilIdle(IDLE_TIMEOUT_MS);
    await Promise.all([driver.consumers.finish(), driver.workers.finish()]);
    return check(await bed.history(driver.recorded));
  } finally {
    await bed.end();
  }
}

export class ConsumingDriver {
  readonly api: Api;
  readonly random = new Random(SEED);
  readonly consumers: Consumers;
  readonly workers: Workers;
  readonly additions: Additions;
  private readonly posted: Posted[] = [];

  constructor(private readonly bed: TestBed) {
    this.api = new Api(bed.urls);
    const options = { api: this.api, seed: SEED, faults: false };
    this.consumers = new Consumers(options);
    this.workers = new Workers(options);
    this.additions = new Additions({
      // The first replica knows at once what it creates.
      api: new Api(bed.urls.slice(0, 1)),
      seed: SEED,
      onGroup: (name) => this.consumers.startOne(name, name, false),
      // Not yet: a pull lets its replica read the listeners.
      onQueue: () => undefined,
    });
  }

  get recorded() {
    const { posted, consumers, workers, additions } = this;
    return { posted, calls: consumers.calls, workerCalls: workers.calls, added: additions.added };
  }

  /** One message of each key; resolves when all are in the topics and queues. */
  async post(...keys: readonly string[]): Promise<void> {
    await this.postTo(this.api, keys, {});
    await this.waitUntilApplied();
  }

  /** To the second replica, which learns later than the first what was created. */
  postToSecond(keys: readonly string[], behaviour: Behaviour): Promise<void> {
    return this.postTo(new Api(this.bed.urls.slice(1)), keys, behaviour);
  }

  async waitUntilApplied(): Promise<void> {
    for (let open = 1; open > 0; await pause(50)) {
      const [row] = await this.bed.database.query<{ n: number }>(
        'SELECT count(*)::int AS n FROM inbox WHERE settled_at IS NULL',
      );
      open = row!.n;
    }
  }

  private async postTo(api: Api, keys: readonly string[], behaviour: Behaviour): Promise<void> {
    const messages = keys.map((key, n) => ({ id: `m${this.posted.length + n}`, type: 'plain', key }));
    const payload = { ...behaviour, n: 0 };
    const postedMs = preciseNow();
    const reply = await api.call('POST', '/v1/messages/batch', this.random, {
      body: { messages: messages.map((message) => ({ ...message, payload })) },
      expected: [202],
    });
    const outcome = reply?.status === 202 ? 'accepted' : 'unknown';
    for (const message of messages) {
      const text = JSON.stringify(payload);
      this.posted.push({ ...message, payload: text, outcome, scheduled: false, postedMs });
    }
  }
}
