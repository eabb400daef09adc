import { Inject, Injectable } from '@nestjs/common';
import { Backoffs } from '../../clock/backoffs.ts';
import type { Loop, Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import type { ActionKind, ActionRequest, Step } from './dead-letter-action.ts';
import { DeadLetterActionStore } from './dead-letter-action-store.ts';
import { type DeadLetterFilter, STAGES, type Stage } from './dead-letter-filter.ts';
import type { DeadLetterRow } from './dead-letters-store.ts';

/** Limits how long a step locks its lane. */
const ITEMS_PER_STEP = 500;
/** Max revived items in flight, per action and queue; further items wait. All dead letters of a key are revived together. */
const MAX_IN_FLIGHT = 500;
const POLL_MS = 500;

/** Revives and discards dead letters: a single one at once, many of them in paced steps. */
@Injectable()
export class DeadLetterActions {
  private readonly loop: Loop;
  private readonly counts;
  private readonly backoffs = new Backoffs();

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly store: DeadLetterActionStore,
    private readonly wakeups: Wakeups,
    loops: Loops,
    metrics: Metrics,
  ) {
    this.loop = loops.run('upkeep', 'dead-letter-actions', POLL_MS, () => this.pass());
    this.counts = {
      revive: metrics.counter({
        name: 'dead_letters_revived_total',
        help: 'Dead letters revived by operators.',
        labelNames: ['stage'],
      }),
      discard: metrics.counter({
        name: 'dead_letters_discarded_total',
        help: 'Dead letters discarded by operators.',
        labelNames: ['stage'],
      }),
    };
  }

  /** Throws NotDead if it is no longer a dead letter. */
  async applyToOne(row: DeadLetterRow, request: ActionRequest): Promise<void> {
    await this.store.applyToOne(row, request);
    const { stage, lane, id } = row;
    this.report(request, { stage, id, matched: 1 });
    this.count(request.kind, stage, 1);
    this.wakeups.announce(stage, new Set([lane]));
  }

  async applyToMany(
    filter: DeadLetterFilter,
    request: ActionRequest,
  ): Promise<{ id: number; matched: number }> {
    const created = await this.store.create(filter, request);
    this.report(request, { filter, matched: created.matched });
    this.loop.wake();
    return created;
  }

  /** One step of each action. An action whose listener is down reaches its limit in flight and does not block the others. */
  private async pass(): Promise<Next> {
    const written: Record<Stage, Set<number>> = { inbox: new Set(), outbox: new Set() };
    const steps: (Step | undefined)[] = [];
    for (const action of await this.store.unfinished()) {
      if (this.backoffs.isBackingOff(action)) continue;
      const step = await this.step(action);
      steps.push(step);
      if (step?.kind !== 'applied') continue;
      this.count(step.action, step.stage, step.changed);
      written[step.stage].add(step.lane);
    }
    for (const stage of STAGES) if (written[stage].size) this.wakeups.announce(stage, written[stage]);
    if (steps.some((step) => step?.kind === 'applied')) return 'again';
    return steps.some((step) => step?.kind === 'full') ? 'soon' : 'idle';
  }

  /** A failed step is retried with backoff and does not block other actions. */
  private step(action: number): Promise<Step | undefined> {
    return this.backoffs.attempt(
      action,
      () => this.store.step(action, ITEMS_PER_STEP, MAX_IN_FLIGHT),
      (error, retryInMs) =>
        this.log.error(
          { event: 'dead-letters.action-failed', action, retryInMs, error },
          'a step of a revive or discard failed and will be retried',
        ),
    );
  }

  private count(kind: ActionKind, stage: Stage, changed: number): void {
    this.counts[kind].inc({ stage }, changed);
  }

  private report({ kind, by, reason }: ActionRequest, details: object): void {
    this.log.info(
      { event: `dead-letters.${kind}`, by, reason, ...details },
      'an operator revived or discarded dead letters',
    );
  }
}
