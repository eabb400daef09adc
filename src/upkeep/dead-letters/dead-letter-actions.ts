import { Inject, Injectable } from '@nestjs/common';
import type { Loop } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { PacedJobs } from '../../lanes/paced-jobs.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import type { ActionKind, ActionRequest } from './dead-letter-action.ts';
import { type ActionStep, DeadLetterActionStore, wokenBy } from './dead-letter-action-store.ts';
import type { DeadLetterFilter, Stage } from './dead-letter-filter.ts';
import type { DeadLetterRow } from './dead-letters-store.ts';
import { GroupActions } from './group-actions.ts';

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

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly store: DeadLetterActionStore,
    private readonly groups: GroupActions,
    private readonly wakeups: Wakeups,
    loops: Loops,
    metrics: Metrics,
  ) {
    const jobs = new PacedJobs<ActionStep>({
      wakeups,
      unfinished: () => store.unfinished(),
      step: (action) => groups.withTopics(() => store.step(action, ITEMS_PER_STEP, MAX_IN_FLIGHT)),
      onChanged: ({ action, stage, rows }) => this.count(action, stage, rows),
      onFailed: (action, error, retryInMs) =>
        log.error(
          { event: 'dead-letters.action-failed', action, retryInMs, error },
          'a step of a revive or discard failed and will be retried',
        ),
    });
    this.loop = loops.run('upkeep', 'dead-letter-actions', POLL_MS, () => jobs.pass());
    this.counts = {
      revive: metrics.counter('dead_letters_revived_total', 'Dead letters revived by operators.', ['stage']),
      discard: metrics.counter('dead_letters_discarded_total', 'Dead letters discarded by operators.', [
        'stage',
      ]),
    };
  }

  /** Throws NotDead if it is no longer a dead letter. */
  async applyToOne(row: DeadLetterRow, request: ActionRequest): Promise<void> {
    await this.groups.withTopics(() => this.store.applyToOne(row, request));
    const { stage, id } = row;
    this.report(request, { stage, id, matched: 1 });
    this.count(request.kind, stage, 1);
    const { queue, lane } = wokenBy(row);
    this.wakeups.announce(queue, new Set([lane]));
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

  /** After an action was cancelled: it may be done. */
  wake(): void {
    this.loop.wake();
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
