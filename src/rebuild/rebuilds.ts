import { Inject, Injectable } from '@nestjs/common';
import { Backoffs } from '../clock/backoffs.ts';
import { doubled, type Loop, type Next } from '../clock/loop.ts';
import { Loops } from '../clock/loops.ts';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { errorText } from '../inbox/processing/failures.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { Build } from './build.ts';
import { Differ } from './diff.ts';
import { Drain } from './drain.ts';
import { Pages } from './pages.ts';
import { ReadModelRegistry, type RegisteredModel } from './read-model-registry.ts';
import type { Rebuild } from './rebuild.ts';
import { RebuildMetrics } from './rebuild-metrics.ts';
import { RebuildPreparations } from './rebuild-preparations.ts';
import { RebuildStatements } from './rebuild-statements.ts';
import { Replay } from './replay.ts';
import { ReplayFailures } from './replay-failures.ts';
import { Switch } from './switch.ts';

const IDLE_MS = 1_000;
/** Batches at a time: one keeps the database busy while the other keeps this process busy. */
const PARALLEL = 2;
/** Live messages that wait: from here on, live traffic has a backlog, and a rebuild keeps to its share. */
const BACKLOG = 1_000;
/** With fewer messages left, a rebuild has caught up. */
const NEARLY = 500;
const MAX_PAUSE_MS = 5_000;
/** A switch, or its comparison, that has to wait is tried again after this time. */
const RETRY_MS = 200;

/** Any replica with the role `inbox` works on every open rebuild: step by step, each of them committed. */
@Injectable()
export class Rebuilds {
  private readonly loop: Loop;
  /** In a row. */
  private failedSwitches = 0;
  /** Of rebuilds whose last step failed on this replica. */
  private readonly errors = new Map<number, string>();
  private readonly backoffs = new Backoffs(MAX_PAUSE_MS);

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Pick<Settings, 'rebuildShare'>,
    @Inject(LOG) private readonly log: Log,
    private readonly statements: RebuildStatements,
    private readonly registry: ReadModelRegistry,
    private readonly build: Build,
    private readonly replay: Replay,
    private readonly failures: ReplayFailures,
    private readonly pages: Pages,
    private readonly preparations: RebuildPreparations,
    private readonly drain: Drain,
    private readonly differ: Differ,
    private readonly switching: Switch,
    private readonly metrics: RebuildMetrics,
    loops: Loops,
  ) {
    this.loop = loops.run('inbox', 'rebuild', IDLE_MS, (signal) => this.pass(signal));
  }

  wake(): void {
    this.loop.wake();
  }

  private async pass(stopping: AbortSignal): Promise<Next> {
    const waits: number[] = [];
    for (const rebuild of await this.statements.atWork()) {
      const model = this.registry.find(rebuild.model);
      if (model && isSameVersion(rebuild, model))
        waits.push(await this.stepOf(rebuild, () => this.step(rebuild, model, stopping)));
    }
    if (waits.length === 0) return 'idle';
    const afterMs = Math.min(...waits);
    return afterMs > 0 ? { afterMs } : 'again';
  }

  /** An error that ends a step is shown to operators until a step succeeds, and does not hold up other rebuilds. */
  private async stepOf(rebuild: Rebuild, step: () => Promise<number>): Promise<number> {
    const shown = this.errors.get(rebuild.id);
    const backoffMs = this.backoffs.remainingMs(rebuild.id);
    if (backoffMs > 0) return backoffMs;
    try {
      const waitMs = await step();
      if (shown !== undefined) await this.statements.waitsNoLonger(rebuild.id, shown);
      this.errors.delete(rebuild.id);
      this.backoffs.succeed(rebuild.id);
      return waitMs;
    } catch (error) {
      if (await this.movedOn(rebuild)) return 0;
      const reason = `${errorText(error)}; it tries again`;
      this.errors.set(rebuild.id, reason);
      // If the database is away, this fails, too.
      if (reason !== shown) await this.statements.waits(rebuild.id, reason).catch(() => undefined);
      const retryInMs = this.backoffs.fail(rebuild.id);
      this.log.error(
        { event: 'rebuild.failed', model: rebuild.model, retryInMs, error },
        'a step of a rebuild failed; it will be retried',
      );
      return retryInMs;
    }
  }

  /** An operator or another replica has ended it or taken its next step: what failed was no longer to be done. */
  private async movedOn({ id, status }: Rebuild): Promise<boolean> {
    const atWork = await this.statements.atWork().catch(() => undefined);
    return atWork !== undefined && !atWork.some((one) => one.id === id && one.status === status);
  }

  /** One step; returns how long to wait before the next. */
  private async step(rebuild: Rebuild, model: RegisteredModel, stopping: AbortSignal): Promise<number> {
    if (rebuild.status === 'building') return (await this.build.run(rebuild, model)) ? 0 : RETRY_MS;
    if (rebuild.status === 'comparing') return this.compare(rebuild, model, stopping);
    const startedAtMs = performance.now();
    const batches = Array.from({ length: PARALLEL }, () => this.replay.batch(rebuild, model, stopping));
    const done = await Promise.all(batches);
    const count = done.reduce((sum, one) => sum + (one?.done ?? 0), 0);
    this.metrics.replayed(rebuild.model, count);
    if (count < NEARLY && (await this.isCaughtUp(rebuild))) return this.caughtUp(rebuild, model);
    // Others are at work on the rest, or it waits for a retry.
    if (!done.some((one) => one?.moved)) return RETRY_MS;
    return this.pauseAfter(performance.now() - startedAtMs);
  }

  /** So little is left that the transaction of the switch can apply it: on a busy service there is always something. */
  private async isCaughtUp(rebuild: Rebuild): Promise<boolean> {
    if ((await this.failures.lanes(rebuild)).size > 0) return false;
    return this.pages.isNearEnd(rebuild, NEARLY);
  }

  /** Nearly nothing is left of what was applied so far. */
  private async caughtUp(rebuild: Rebuild, model: RegisteredModel): Promise<number> {
    if (rebuild.status === 'ready') return IDLE_MS;
    if (rebuild.status === 'replaying') {
      const needsDiff = rebuild.direction === 'forward' && !rebuild.compared;
      await this.statements.moveOn(rebuild.id, 'replaying', needsDiff ? 'comparing' : 'switching');
      return 0;
    }
    if (await this.preparations.areNext(rebuild, model)) return this.drained(rebuild);
    const pauseMs = await this.switching.run(rebuild, model);
    if (pauseMs === undefined) return this.retryMs();
    this.failedSwitches = 0;
    this.metrics.switched(rebuild.model, pauseMs);
    this.log.info(
      { event: 'rebuild.switched', model: rebuild.model, direction: rebuild.direction, pauseMs },
      'a read model was switched to its other schema',
    );
    return 0;
  }

  /** Every try may hold up live messages for as long as it waits, so they become rare. */
  private retryMs(): number {
    this.failedSwitches += 1;
    return Math.min(MAX_PAUSE_MS, doubled(RETRY_MS, this.failedSwitches));
  }

  /** The next steps apply what needs its `prepare`, while no more comes. */
  private async drained({ id }: Rebuild): Promise<number> {
    return (await this.drain.request(id)) ? 0 : RETRY_MS;
  }

  private async compare(rebuild: Rebuild, model: RegisteredModel, stopping: AbortSignal): Promise<number> {
    const diff = await this.differ.run(rebuild, model, stopping);
    if (diff === 'needs-prepare') await this.drain.request(rebuild.id);
    if (typeof diff === 'string') return RETRY_MS;
    await this.statements.compared(rebuild.id, diff, rebuild.options.dryRun ? 'ready' : 'switching');
    return 0;
  }

  /** While live messages wait, a rebuild works no more than its share of the time. */
  private async pauseAfter(busyMs: number): Promise<number> {
    const share = this.settings.rebuildShare / 100;
    // A drain makes them wait, until the rebuild has caught up.
    if (share >= 1 || this.drain.isActive || (await this.statements.waiting(BACKLOG)) < BACKLOG) return 0;
    return Math.min(MAX_PAUSE_MS, Math.round((busyMs * (1 - share)) / share));
  }
}

/** Replicas with other migrations or other code leave a rebuild to those that started it: its result would be a mixture. */
function isSameVersion({ migrations, version }: Rebuild, model: RegisteredModel): boolean {
  return migrations.join() === model.migrations.join() && (version ?? model.version) === model.version;
}
