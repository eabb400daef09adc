import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { LEASE_MS } from './bed-settings.ts';
import { type Bug, LEASE_GATE_LOCK } from './bugs.ts';
import { check } from './check.ts';
import { faultRun } from './fault-run.ts';
import type { Version } from './fleet.ts';
import { createOffsetSequences } from './groups/group-bugs.ts';
import type { Posted } from './history.ts';
import type { Point } from './point-names.ts';
import type { Postgres } from './postgres.ts';
import { preciseNow } from './precise-now.ts';
import { TestBed } from './test-bed.ts';
import type { Violation } from './violation.ts';

export interface ScenarioContext {
  readonly postgres: Postgres;
  readonly version: Version;
  log(line: string): void;
}

/** A situation in which a guard is needed, on replicas without some guards. Returns the violations. */
export type GuardScenario = (
  without: readonly Bug[],
  context: ScenarioContext,
) => Promise<readonly Violation[]>;

const SEED = 7;
const IDLE_TIMEOUT_MS = 30_000;
const forever = new Promise<never>(() => undefined);
const REACHED_WITHIN_MS = 30_000;
/** A replica may freeze with a posted message stored and no response sent. */
const RESPONSE_TIMEOUT_MS = 1_000;

/** A replica freezes with claimed messages; another takes over and applies them; the first one resumes. */
export const frozenLeaseHolder: GuardScenario = (without, context) =>
  runScenario(without, context, {}, async (driver) => {
    await driver.postUntilReached('inbox: claimed, not applied yet', {});
    await driver.waitUntilAllSettled();
    await driver.resume(1_500);
  });

/**
 * A replica freezes and its lease expires; more messages of the key arrive, and the other replica starts a lease. Only
 * now the first one writes that its message waits for a retry: the claim must see that, or it takes the messages behind it.
 */
export const lateClaim: GuardScenario = (without, context) =>
  runScenario(without, context, { INBOX_RETRY_SCHEDULE: '6s,6s' }, async (driver) => {
    driver.arm('inbox: failure written');
    await driver.postUntilReached('inbox: failed, not written yet', { fails: 1 });
    await driver.postBehindEach();
    const gate = await driver.closeLeaseGate();
    await pause(LEASE_MS + 500);
    await gate.reached();
    await driver.resumeUntil('inbox: failure written');
    await gate.open();
    await pause(1_000);
    await driver.resume(0);
  });

/** A message failed and waits for a retry; more messages of its key arrive. */
export const overtaking: GuardScenario = (without, context) =>
  runScenario(without, context, { INBOX_RETRY_SCHEDULE: '2s,2s' }, async (driver) => {
    await driver.post({ fails: 1 }, 'one');
    await driver.waitUntilHeld();
    for (let n = 0; n < 3; n++) await driver.post({}, 'one');
  });

/** A replica is killed just before it stores a posted message. */
export const earlyResponse: GuardScenario = (without, context) =>
  runScenario(without, context, {}, async (driver) => {
    driver.arm('ingest: not stored yet', 'SIGKILL');
    await driver.post({});
    await pause(500);
  });

/** Load without faults: the messages' own failures, retries, holds and repeats are enough. */
export const plainLoad: GuardScenario = (without, context) =>
  runLoad(without, context, async () => undefined);

/** The same with a database without the unique index on the identity. */
export const withoutUniqueIndex: GuardScenario = (without, context) =>
  runLoad([], context, async ({ database }) => {
    if (!without.includes('dedupe')) return;
    await database.query('DROP INDEX inbox_identity');
    await database.query('CREATE INDEX inbox_identity ON inbox (id, source)');
  });

/** The same with the sequences that offsets must not come from. */
export const appendingWriters: GuardScenario = (without, context) =>
  runLoad(without, context, async ({ database }) => {
    if (without.includes('offsetSequence')) await createOffsetSequences(database);
  });

async function runLoad(
  without: readonly Bug[],
  { postgres, version }: ScenarioContext,
  beforeFirstPost: (bed: TestBed) => Promise<void>,
): Promise<readonly Violation[]> {
  const { violations } = await faultRun({
    seed: SEED,
    seconds: 6,
    replicas: 2,
    rate: 200,
    keys: 40,
    everyMs: 1_000,
    faults: ['poison'],
    without,
    postgres,
    version,
    previous: undefined,
    idleTimeoutMs: IDLE_TIMEOUT_MS,
    beforeFirstPost,
    log: () => undefined,
  });
  return violations;
}

export async function runScenario(
  without: readonly Bug[],
  { postgres, version }: ScenarioContext,
  settings: Record<string, string>,
  scenario: (driver: ScenarioDriver, bed: TestBed) => Promise<void>,
): Promise<readonly Violation[]> {
  const bed = await TestBed.prepare({
    seed: SEED,
    postgres,
    version,
    replicas: 2,
    skew: false,
    without,
    settings,
  });
  try {
    const driver = new ScenarioDriver(bed);
    await scenario(driver, bed);
    await bed.waitUntilIdle(IDLE_TIMEOUT_MS);
    return check(await bed.history({ posted: driver.posted }));
  } finally {
    await bed.end();
  }
}

/** Drives two replicas: faults are injected on the first one only. */
export class ScenarioDriver {
  readonly posted: Posted[] = [];

  constructor(private readonly bed: TestBed) {}

  private get first() {
    return this.bed.fleet.replicas[0]!;
  }

  arm(point: Point, signal: 'SIGSTOP' | 'SIGKILL' = 'SIGSTOP'): void {
    this.bed.fleet.arm(this.first, point, signal);
    if (signal === 'SIGSTOP') void this.bed.inject('freeze-at-point', 0, () => forever);
  }

  /** Posts one more message of every key so far to the second replica: the first one is frozen. */
  async postBehindEach(): Promise<void> {
    for (const { key } of [...this.posted]) await this.post({}, key, this.bed.urls.slice(1));
  }

  /** To the first replica; if it does not respond, to the second. */
  async post(behaviour: object, key?: string, urls: readonly string[] = this.bed.urls): Promise<void> {
    if (Object.keys(behaviour).length > 0) void this.bed.inject('poison', undefined, () => forever);
    const id = `m${this.posted.length + 1}`;
    const payload = JSON.stringify({ ...behaviour, n: 1 });
    const postedMs = preciseNow();
    const message = { id, type: 'plain', key: key ?? `key-${id}`, payload, scheduled: false, postedMs };
    const body = `{"id":"${id}","type":"plain","key":"${message.key}","payload":${payload}}`;
    for (const url of urls) {
      const headers = { 'content-type': 'application/json' };
      const signal = AbortSignal.timeout(RESPONSE_TIMEOUT_MS);
      const response = await fetch(`${url}/v1/messages`, { method: 'POST', headers, body, signal }).catch(
        () => undefined,
      );
      if (!response?.ok) continue;
      this.posted.push({ ...message, outcome: 'accepted' });
      return;
    }
    this.posted.push({ ...message, outcome: 'unknown' });
  }

  /**
   * Either replica may claim a message: posts until the first one did. All posts share one wait: on a busy machine the replica
   * reaches the point later than the next message is posted.
   */
  async postUntilReached(point: Point, behaviour: object): Promise<void> {
    const { fleet } = this.bed;
    let hasReached: boolean | undefined;
    const reached = fleet.reached(this.first, point, REACHED_WITHIN_MS).then((value) => {
      hasReached = value;
    });
    this.arm(point);
    while (hasReached === undefined) {
      await this.post(behaviour);
      await Promise.race([reached, pause(100)]);
    }
    if (!hasReached) throw new Error(`no message reached "${point}" on the first replica`);
  }

  waitUntilAllSettled(): Promise<void> {
    return this.waitForCount('settled_at IS NULL', 0);
  }

  waitUntilHeld(): Promise<void> {
    return this.waitForCount(`status = 'held'`, 1);
  }

  private async waitForCount(which: string, wanted: number): Promise<void> {
    for (;;) {
      const [row] = await this.bed.database.query<{ n: number }>(
        `SELECT count(*)::int AS n FROM inbox WHERE ${which}`,
      );
      if (row!.n === wanted) return;
      await pause(50);
    }
  }

  async resume(waitMs: number): Promise<void> {
    this.bed.fleet.thaw(this.first);
    await pause(waitMs);
  }

  async resumeUntil(point: Point): Promise<void> {
    const reached = this.bed.fleet.reached(this.first, point, 10_000);
    this.bed.fleet.thaw(this.first);
    if (!(await reached)) throw new Error(`the first replica did not reach "${point}"`);
  }

  async closeLeaseGate() {
    const { postgres } = this.bed.options;
    const [{ name } = { name: '' }] = await this.bed.database.query<{ name: string }>(
      'SELECT current_database() AS name',
    );
    const url = Object.assign(new URL(postgres.url), { pathname: `/${name}` }).href;
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query('SELECT pg_advisory_lock($1)', [LEASE_GATE_LOCK]);
    const reached = async () => {
      for (;;) {
        const { rowCount } = await client.query(
          `SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted`,
          [LEASE_GATE_LOCK],
        );
        if (rowCount) return;
        await pause(20);
      }
    };
    return { reached, open: () => client.end() };
  }
}
