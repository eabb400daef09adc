import { Inject, Injectable } from '@nestjs/common';
import type { Gauge } from 'prom-client';
import type { Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import {
  MAX_COUNTED,
  ObservationStore,
  type Observed,
  SOON_SECONDS,
  WAITED_SECONDS,
} from './observation-store.ts';

type Label = 'stage' | 'listener' | 'status' | 'reason' | 'mark';

interface Measure {
  readonly help: string;
  readonly labels: readonly Label[];
  /** The label that the statement calls `kind`. */
  readonly kind?: Label;
}

/** As often a look may fail before what it saw last is not shown any more: no number is better than an old one. */
const MAX_FAILURES = 4;

const MEASURES: Readonly<Record<string, Measure>> = {
  backlog: {
    help: `What waits or is in flight, by stage and listener; closed: ready, and nothing is sent to the listener now; limited: ready, and its own rate is used up; counted up to ${MAX_COUNTED} over all listeners, of the inbox estimated beyond.`,
    labels: ['stage', 'listener', 'status'],
    kind: 'status',
  },
  backlog_oldest_age_seconds: {
    help: 'How long the oldest of them has waited; a scheduled message from its due time on, one that was revived or replayed since then.',
    labels: ['stage', 'listener', 'status'],
    kind: 'status',
  },
  dead_letters: {
    help: 'Dead letters that are kept, counted as the backlog is.',
    labels: ['stage', 'listener'],
  },
  holds: {
    help: `Keys that wait, by reason; the first ${MAX_COUNTED} of each stage.`,
    labels: ['stage', 'reason'],
    kind: 'reason',
  },
  astray: {
    help: 'Always 0: rows marked by a holder in a lane that nobody holds, or held without a hold.',
    labels: ['stage', 'mark'],
    kind: 'mark',
  },
  messages_expiring_soon: {
    help: `Messages that have waited for ${WAITED_SECONDS} s and expire within ${SOON_SECONDS / 60} minutes, or have.`,
    labels: [],
  },
  circuit_open: { help: '1 while the circuit of a listener is open.', labels: ['listener'] },
  listener_paused: {
    help: '1 while a listener is paused, by an operator or because it asked to wait.',
    labels: ['listener'],
  },
};

/** A6, A9, E10: what waits in the database, looked at every so often and shown from memory. */
@Injectable()
export class Observation {
  private readonly gauges = new Map<string, Gauge<Label>>();
  private readonly observedAt: Gauge | undefined;
  private failures = 0;

  constructor(
    @Inject(SETTINGS_TOKEN) settings: Settings,
    private readonly store: ObservationStore,
    metrics: Metrics,
    loops: Loops,
  ) {
    loops.run('upkeep', 'observation', settings.metricsInterval, () => this.pass());
    if (!settings.roles.includes('upkeep')) return;
    for (const [name, { help, labels }] of Object.entries(MEASURES))
      this.gauges.set(name, metrics.gauge<Label>({ name, help, labelNames: [...labels] }));
    this.observedAt = metrics.gauge({
      name: 'observed_timestamp_seconds',
      help: 'When the database was last looked at for the backlog and the like.',
    });
    this.forget();
  }

  private async pass(): Promise<Next> {
    try {
      const observed = await this.store.observe();
      this.forget();
      for (const one of observed) this.show(one);
      this.observedAt!.set(Date.now() / 1000);
      this.failures = 0;
      return 'idle';
    } catch (error) {
      this.failures += 1;
      if (this.failures >= MAX_FAILURES) this.forget();
      throw error;
    }
  }

  private show({ name, stage, listener, kind, value }: Observed): void {
    const label = MEASURES[name]!.kind;
    this.gauges.get(name)!.set(
      {
        ...(stage === null ? {} : { stage }),
        ...(listener === null ? {} : { listener }),
        ...(label === undefined || kind === null ? {} : { [label]: kind }),
      },
      value,
    );
  }

  /** One without labels would be reset to 0, which it is not. */
  private forget(): void {
    for (const [name, gauge] of this.gauges) {
      if (MEASURES[name]!.labels.length > 0) gauge.reset();
      else gauge.remove();
    }
  }
}
