import { Inject, Injectable } from '@nestjs/common';
import { Backoffs } from '../../clock/backoffs.ts';
import type { Loop, Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import { type DeadLetterFilter, STAGES, type Stage } from './dead-letter-filter.ts';
import type { DeadLetterRow } from './dead-letters-store.ts';
import type { RulingKind, RulingRequest, Step } from './ruling.ts';
import { RulingStore } from './ruling-store.ts';

/** Their lane is locked for so long. */
const ITEMS_PER_STEP = 500;
/** Of one ruling in one queue; beyond, that waits until they are handled. All dead letters of a key go on together. */
const MAX_IN_FLIGHT = 500;
const POLL_MS = 500;

/** Carries out what operators decide about dead letters: one at once, many a few at a time. */
@Injectable()
export class Rulings {
  private readonly loop: Loop;
  private readonly counts;
  private readonly setbacks = new Backoffs();

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly store: RulingStore,
    private readonly wakeups: Wakeups,
    loops: Loops,
    metrics: Metrics,
  ) {
    this.loop = loops.run('upkeep', 'rulings', POLL_MS, () => this.pass());
    this.counts = {
      revive: metrics.counter({
        name: 'dead_letters_revived_total',
        help: 'Dead letters that operators let run again.',
        labelNames: ['stage'],
      }),
      discard: metrics.counter({
        name: 'dead_letters_discarded_total',
        help: 'Dead letters that operators discarded.',
        labelNames: ['stage'],
      }),
    };
  }

  /** Throws NotDead. */
  async one(row: DeadLetterRow, request: RulingRequest): Promise<void> {
    await this.store.one(row, request);
    const { stage, lane, id } = row;
    this.report(request, { stage, id, matched: 1 });
    this.count(request.kind, stage, 1);
    this.wakeups.announce(stage, new Set([lane]));
  }

  async many(filter: DeadLetterFilter, request: RulingRequest): Promise<{ id: number; matched: number }> {
    const created = await this.store.create(filter, request);
    this.report(request, { filter, matched: created.matched });
    this.loop.wake();
    return created;
  }

  /** A step of each: one whose listener is down has enough on its way, and the others go on. */
  private async pass(): Promise<Next> {
    const written: Record<Stage, Set<number>> = { inbox: new Set(), outbox: new Set() };
    const steps: (Step | undefined)[] = [];
    for (const ruling of await this.store.undone()) {
      if (this.setbacks.isBackingOff(ruling)) continue;
      const step = await this.step(ruling);
      steps.push(step);
      if (step?.kind !== 'applied') continue;
      this.count(step.ruling, step.stage, step.changed);
      written[step.stage].add(step.lane);
    }
    for (const stage of STAGES) if (written[stage].size) this.wakeups.announce(stage, written[stage]);
    if (steps.some((step) => step?.kind === 'applied')) return 'again';
    return steps.some((step) => step?.kind === 'full') ? 'soon' : 'idle';
  }

  /** One that fails is tried again later, and the others go on. */
  private step(ruling: number): Promise<Step | undefined> {
    return this.setbacks.attempt(
      ruling,
      () => this.store.step(ruling, ITEMS_PER_STEP, MAX_IN_FLIGHT),
      (error, retryInMs) =>
        this.log.error(
          { event: 'dead-letters.ruling-failed', ruling, retryInMs, error },
          'a step of a ruling failed; it is tried again',
        ),
    );
  }

  private count(kind: RulingKind, stage: Stage, changed: number): void {
    this.counts[kind].inc({ stage }, changed);
  }

  private report({ kind, by, reason }: RulingRequest, what: object): void {
    this.log.info({ event: `dead-letters.${kind}`, by, reason, ...what }, 'an operator decided');
  }
}
