import { setTimeout as pause } from 'node:timers/promises';
import { laneOf } from '../../src/lanes/lane-of.ts';
import { Api } from '../api.ts';
import { type GuardScenario, runScenario, type ScenarioDriver } from '../guard-scenarios.ts';
import { Random } from '../random.ts';
import type { TestBed } from '../test-bed.ts';

const LANES = 256;
const TAKES_MS = 1_500;
const REACHED_WITHIN_MS = 30_000;

/** A batch applies a message, and is not over when an operator asks for the switch. */
export const switchInFlight: GuardScenario = (without, context) =>
  runScenario(without, context, {}, async (driver, bed) => {
    const operator = new ScenarioOperator(bed);
    await postSome(driver);
    await operator.act('', { dryRun: true });
    await operator.reached('ready');
    await driver.post({ takesMs: TAKES_MS });
    await operator.untilFound(`SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'`);
    await operator.act('/switch');
    await operator.reached('switched');
  });

/** A message that was held is applied when a rebuild has caught up with later ones of its lane. */
export const heldBehind: GuardScenario = (without, context) =>
  runScenario(without, context, {}, async (driver, bed) => {
    const operator = new ScenarioOperator(bed);
    const [held, other] = twoOfALane();
    await operator.call('PUT', `/v1/keys/${held}/hold`, { reason: 'later' });
    await driver.post({}, held);
    for (let n = 0; n < 3; n++) await driver.post({}, other);
    await operator.untilFound(`SELECT FROM inbox WHERE key = '${other}' HAVING count(settled_at) = 3`);
    await operator.act('', { dryRun: true });
    await operator.reached('ready');
    await operator.call('DELETE', `/v1/keys/${held}/hold`);
    await driver.waitUntilAllSettled();
    await operator.act('/switch');
    await operator.reached('switched');
  });

/** Messages with deliveries, some of which send others, are applied again by a rebuild. */
export const replayedEffects: GuardScenario = (without, context) =>
  runScenario(without, context, {}, async (driver, bed) => {
    const operator = new ScenarioOperator(bed);
    await postSome(driver);
    for (let n = 0; n < 5; n++) await driver.post({ sendsTo: `sent-${n}` });
    await driver.waitUntilAllSettled();
    await operator.act('', {});
    await operator.reached('switched');
  });

async function postSome(driver: ScenarioDriver): Promise<void> {
  for (let n = 0; n < 10; n++) await driver.post({});
  await driver.waitUntilAllSettled();
}

function twoOfALane(): [string, string] {
  const lane = laneOf('held', LANES);
  for (let n = 0; ; n++) if (laneOf(`other-${n}`, LANES) === lane) return ['held', `other-${n}`];
}

/** What an operator does in a scenario, at any replica. */
class ScenarioOperator {
  private readonly api: Api;
  private readonly random = new Random(1);

  constructor(private readonly bed: TestBed) {
    this.api = new Api(bed.urls);
  }

  async act(action: string, body?: object): Promise<void> {
    await this.call('POST', `/v1/read-models/chain/rebuild${action}`, body);
  }

  async call(method: string, path: string, body?: object): Promise<unknown> {
    const expected = [200, 202, 204];
    const reply = await this.api.call(method, path, this.random, { expected, ...(body ? { body } : {}) });
    if (!reply || this.api.unexpected.length > 0)
      throw new Error(`${method} ${path}: ${this.api.unexpected}`);
    return reply.body;
  }

  /** A failed rebuild is waited for, too: the checks say why it failed. */
  async reached(status: string): Promise<void> {
    await this.untilFound(`SELECT FROM rebuild WHERE status IN ('${status}', 'failed')`);
  }

  async untilFound(sql: string): Promise<void> {
    for (const deadline = Date.now() + REACHED_WITHIN_MS; Date.now() < deadline; await pause(20))
      if ((await this.bed.database.query(sql)).length > 0) return;
    throw new Error(`not within ${REACHED_WITHIN_MS} ms: ${sql}`);
  }
}
