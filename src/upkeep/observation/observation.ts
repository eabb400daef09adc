import { Inject, Injectable } from '@nestjs/common';
import type { Gauge } from 'prom-client';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import { ScheduledJobs } from '../scheduled-jobs.ts';
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
  /** The label for the column `kind` of the statement. */
  readonly kind?: Label;
}

/** After this many failures in a row the last values are removed: no value is better than an outdated one. */
const MAX_FAILURES = 4;

const MEASURES: Readonly<Record<string, Measure>> = {
  backlog: {
    help: `Messages and deliveries that wait or are in flight, by stage and listener. closed: ready, but nothing is sent to the listener now; limited: ready, but the rate limit of the listener is reached. Counted up to ${MAX_COUNTED} over all listeners; beyond that the inbox is estimated.`,
    labels: ['stage', 'listener', 'status'],
    kind: 'status',
  },
  backlog_oldest_age_seconds: {
    help: 'How long the oldest of them has waited: a scheduled message since its due time, a revived or replayed one since then.',
    labels: ['stage', 'listener', 'status'],
    kind: 'status',
  },
  dead_letters: {
    help: 'Stored dead letters, counted like the backlog.',
    labels: ['stage', 'listener'],
  },
  holds: {
    help: `Held keys by reason, counted up to ${MAX_COUNTED} per stage.`,
    labels: ['stage', 'reason'],
    kind: 'reason',
  },
  inconsistent_rows: {
    help: 'Expected to be 0: rows marked as processing in a lane without a lease, or held rows without a hold.',
    labels: ['stage', 'mark'],
    kind: 'mark',
  },
  messages_expiring_soon: {
    help: `Messages that have waited for ${WAITED_SECONDS} s and expire within ${SOON_SECONDS / 60} minutes or have expired.`,
    labels: [],
  },
  circuit_open: { help: '1 while the circuit of a listener is open.', labels: ['listener'] },
  listener_paused: {
    help: '1 while a listener is paused by an operator or has asked to wait.',
    labels: ['listener'],
  },
};

/** A6, A9, E10: metrics of the backlog, read from the database every METRICS_INTERVAL and served from memory. */
@Injectable()
export class Observation {
  private readonly gauges = new Map<string, Gauge<Label>>();
  private readonly observedAt: Gauge | undefined;
  private failures = 0;

  constructor(
    @Inject(SETTINGS_TOKEN) settings: Settings,
    private readonly store: ObservationStore,
    metrics: Metrics,
    jobs: ScheduledJobs,
  ) {
    jobs.add({
      name: 'observation',
      intervalMs: settings.metricsInterval,
      runAtStart: true,
      run: () => this.observe(),
    });
    if (!settings.roles.includes('upkeep')) return;
    for (const [name, { help, labels }] of Object.entries(MEASURES))
      this.gauges.set(name, metrics.gauge<Label>({ name, help, labelNames: [...labels] }));
    this.observedAt = metrics.gauge({
      name: 'observed_timestamp_seconds',
      help: 'When the backlog metrics were last read from the database.',
    });
    this.reset();
  }

  private async observe(): Promise<void> {
    try {
      const observed = await this.store.observe();
      this.reset();
      for (const value of observed) this.set(value);
      this.observedAt!.set(Date.now() / 1000);
      this.failures = 0;
    } catch (error) {
      this.failures += 1;
      if (this.failures >= MAX_FAILURES) this.reset();
      throw error;
    }
  }

  private set({ name, stage, listener, kind, value }: Observed): void {
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

  /** A gauge without labels is removed, because reset() would set it to 0. */
  private reset(): void {
    for (const [name, gauge] of this.gauges) {
      if (MEASURES[name]!.labels.length > 0) gauge.reset();
      else gauge.remove();
    }
  }
}
