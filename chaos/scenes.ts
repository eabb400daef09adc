import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { check } from './check.ts';
import { faultRun } from './fault-run.ts';
import type { Version } from './fleet.ts';
import { Ground, LEASE_MS } from './ground.ts';
import type { Posted } from './history.ts';
import { DOOR_NUMBER, type Plant } from './plants.ts';
import type { Point } from './point-names.ts';
import type { Postgres } from './postgres.ts';
import type { Violation } from './violation.ts';

export interface Around {
  readonly postgres: Postgres;
  readonly version: Version;
  say(line: string): void;
}

/** Plays what a guard is for, on replicas without some guards. */
export type Scene = (without: readonly Plant[], around: Around) => Promise<readonly Violation[]>;

const SEED = 7;
const QUIET_MS = 20_000;
const forEver = new Promise<never>(() => undefined);
const REACHED_WITHIN_MS = 30_000;
/** A replica may freeze with what was posted stored and not answered. */
const ANSWER_MS = 1_000;

/** A replica freezes with claimed messages in its hands; another takes over and applies them; the first one wakes. */
export const frozenHolder: Scene = (without, around) =>
  play(without, around, {}, async (stage) => {
    await stage.postUntilReached('inbox: claimed, not applied yet', {});
    await stage.allEnded();
    await stage.wake(1_500);
  });

/**
 * A replica freezes, and its lease ends; more of the key comes, and the other begins to look. Only now the first one
 * writes that its message waits for its next attempt: whoever claims must see that, or takes what stands behind it.
 */
export const claimedTooLate: Scene = (without, around) =>
  play(without, around, { INBOX_RETRY_SCHEDULE: '6s,6s' }, async (stage) => {
    stage.arm('inbox: failure written');
    await stage.postUntilReached('inbox: failed, not written yet', { fails: 1 });
    await stage.postBehindEach();
    const door = await stage.closeDoor();
    await pause(LEASE_MS + 500);
    await door.reached();
    await stage.wakeUntil('inbox: failure written');
    await door.open();
    await pause(1_000);
    await stage.wake(0);
  });

/** A message failed and waits for its next attempt; more of its key come. */
export const overtaking: Scene = (without, around) =>
  play(without, around, { INBOX_RETRY_SCHEDULE: '2s,2s' }, async (stage) => {
    await stage.post({ fails: 1 }, 'one');
    await stage.isHeld();
    for (let n = 0; n < 3; n++) await stage.post({}, 'one');
  });

/** A replica is killed just before it stores what was posted. */
export const answeredTooEarly: Scene = (without, around) =>
  play(without, around, {}, async (stage) => {
    stage.arm('ingest: not stored yet', 'SIGKILL');
    await stage.post({});
    await pause(500);
  });

/** Nothing but messages: their own failures, retries, holds and repeats are enough. */
export const underLoad: Scene = (without, around) => load(without, around, async () => undefined);

/** The same with a database that does not keep identities apart. */
export const withoutUniqueness: Scene = (without, around) =>
  load([], around, async ({ database }) => {
    if (!without.includes('dedupe')) return;
    await database.query('DROP INDEX inbox_identity');
    await database.query('CREATE INDEX inbox_identity ON inbox (id, source)');
  });

async function load(
  without: readonly Plant[],
  { postgres, version }: Around,
  begin: (ground: Ground) => Promise<void>,
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
    quietMs: QUIET_MS,
    begin,
    say: () => undefined,
  });
  return violations;
}

async function play(
  without: readonly Plant[],
  { postgres, version }: Around,
  settings: Record<string, string>,
  scene: (stage: Stage) => Promise<void>,
): Promise<readonly Violation[]> {
  const ground = await Ground.prepare({
    seed: SEED,
    postgres,
    version,
    replicas: 2,
    skew: false,
    without,
    settings,
  });
  try {
    const stage = new Stage(ground);
    await scene(stage);
    await ground.quiet(QUIET_MS);
    return check(await ground.history(stage.posted, []));
  } finally {
    await ground.end();
  }
}

/** Two replicas: the first one is struck, the second one is not. */
class Stage {
  readonly posted: Posted[] = [];

  constructor(private readonly ground: Ground) {}

  private get first() {
    return this.ground.fleet.replicas[0]!;
  }

  arm(point: Point, blow: 'SIGSTOP' | 'SIGKILL' = 'SIGSTOP'): void {
    this.ground.fleet.arm(this.first, point, blow);
    if (blow === 'SIGSTOP') void this.ground.inject('freeze-at-point', 0, () => forEver);
  }

  /** One more of every key so far, to the second replica: the first one is frozen. */
  async postBehindEach(): Promise<void> {
    for (const { key } of [...this.posted]) await this.post({}, key, this.ground.urls.slice(1));
  }

  /** To the first replica; if that gives no answer, to the second. */
  async post(trouble: object, key?: string, urls: readonly string[] = this.ground.urls): Promise<void> {
    if (Object.keys(trouble).length > 0) void this.ground.inject('poison', undefined, () => forEver);
    const id = `m${this.posted.length + 1}`;
    const payload = JSON.stringify({ ...trouble, n: 1 });
    const message = { id, type: 'plain', key: key ?? `key-${id}`, payload, scheduled: false };
    const body = `{"id":"${id}","type":"plain","key":"${message.key}","payload":${payload}}`;
    for (const url of urls) {
      const headers = { 'content-type': 'application/json' };
      const signal = AbortSignal.timeout(ANSWER_MS);
      const answer = await fetch(`${url}/v1/messages`, { method: 'POST', headers, body, signal }).catch(
        () => undefined,
      );
      if (!answer?.ok) continue;
      this.posted.push({ ...message, outcome: 'accepted' });
      return;
    }
    this.posted.push({ ...message, outcome: 'unknown' });
  }

  /**
   * Either replica may take a message: until it is the first one that did. One wait for all posts: on a busy machine it comes
   * to the point later than the next one is posted.
   */
  async postUntilReached(point: Point, trouble: object): Promise<void> {
    const { fleet } = this.ground;
    let came: boolean | undefined;
    const reached = fleet.reached(this.first, point, REACHED_WITHIN_MS).then((answer) => {
      came = answer;
    });
    this.arm(point);
    while (came === undefined) {
      await this.post(trouble);
      await Promise.race([reached, pause(100)]);
    }
    if (!came) throw new Error(`no message came to "${point}" on the first replica`);
  }

  allEnded(): Promise<void> {
    return this.untilCounted('settled_at IS NULL', 0);
  }

  isHeld(): Promise<void> {
    return this.untilCounted(`status = 'held'`, 1);
  }

  private async untilCounted(which: string, wanted: number): Promise<void> {
    for (;;) {
      const [row] = await this.ground.database.query<{ n: number }>(
        `SELECT count(*)::int AS n FROM inbox WHERE ${which}`,
      );
      if (row!.n === wanted) return;
      await pause(50);
    }
  }

  async wake(thenMs: number): Promise<void> {
    this.ground.fleet.thaw(this.first);
    await pause(thenMs);
  }

  async wakeUntil(point: Point): Promise<void> {
    const reached = this.ground.fleet.reached(this.first, point, 10_000);
    this.ground.fleet.thaw(this.first);
    if (!(await reached)) throw new Error(`it did not come to "${point}"`);
  }

  async closeDoor() {
    const { postgres } = this.ground.options;
    const [{ name } = { name: '' }] = await this.ground.database.query<{ name: string }>(
      'SELECT current_database() AS name',
    );
    const url = Object.assign(new URL(postgres.url), { pathname: `/${name}` }).href;
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query('SELECT pg_advisory_lock($1)', [DOOR_NUMBER]);
    const reached = async () => {
      for (;;) {
        const { rowCount } = await client.query(
          `SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted`,
          [DOOR_NUMBER],
        );
        if (rowCount) return;
        await pause(20);
      }
    };
    return { reached, open: () => client.end() };
  }
}
