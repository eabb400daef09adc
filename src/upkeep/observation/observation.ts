import { Inject, Injectable } from '@nestjs/common';
import type { Gauge } from 'prom-client';
import { ScheduledJobs } from '../../clock/scheduled-jobs.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import {
  MAX_COUNTED,
  ObservationStore,
  type Observed,
  SOON_SECONDS,
  WAITED_SECONDS,
} from './observation-store.ts';

type Label = 'stage' | 'listener' | 'group' | 'topic' | 'status' | 'reason' | 'mark';

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
    help: 'How long the oldest message or delivery of `sluice_backlog` has waited: a scheduled one since its due time, a revived or replayed one since its revival or replay.',
    labels: ['stage', 'listener', 'status'],
    kind: 'status',
  },
  dead_letters: {
    help: 'Stored dead letters, counted like the backlog.',
    labels: ['stage', 'listener', 'group'],
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
  pull_in_flight: { help: 'Messages that consumers of a pulled listener have now.', labels: ['listener'] },
  circuit_open: { help: '1 while the circuit of a listener is open.', labels: ['listener'] },
  listener_paused: {
    help: '1 while a listener is paused by an operator or has asked to wait.',
    labels: ['listener'],
  },
  group_lag_messages: {
    help: 'Messages in the topics of a group that it has not committed, except those that retention has removed.',
    labels: ['group'],
  },
  group_lag_seconds: {
    help: 'The age of the oldest message that the group has not committed.',
    labels: ['group'],
  },
  group_members: { help: 'Members of a group that are alive.', labels: ['group'] },
  group_partitions_unowned: {
    help: 'Partitions with messages to read that no live member of the group owns.',
    labels: ['group'],
  },
  group_messages_expired: {
    help: 'Messages that retention removed before the group got them, not reported to it yet.',
    labels: ['group'],
  },
  topic_messages: { help: 'Messages in a topic.', labels: ['topic'] },
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
      role: 'upkeep',
      name: 'observation',
      intervalMs: settings.metricsInterval,
      runAtStart: true,
      run: () => this.observe(),
    });
    if (!settings.roles.includes('upkeep')) return;
    for (const [name, { help, labels }] of Object.entries(MEASURES))
      this.gauges.set(name, metrics.gauge(name, help, { labelNames: labels }));
    this.observedAt = metrics.gauge(
      'observed_timestamp_seconds',
      'When the backlog metrics were last read from the database.',
    );
    this.reset();
  }

  private async observe(): Promise<void> {
    try {
      const observed = await this.store.observe();
      this.reset();
      for (const value of observed) if (value.name in MEASURES) this.set(value);
      this.observedAt!.set(Date.now() / 1000);
      this.failures = 0;
    } catch (error) {
      this.failures += 1;
      if (this.failures >= MAX_FAILURES) this.reset();
      throw error;
    }
  }

  private set({ name, kind, value, ...row }: Observed): void {
    const given: Partial<Record<Label, string | null>> = {
      stage: row.stage,
      listener: row.listener,
      group: row.group,
      topic: row.topic,
    };
    const label = MEASURES[name]!.kind;
    if (label !== undefined) given[label] = kind;
    const labels = Object.fromEntries(Object.entries(given).filter(([, text]) => text !== null));
    this.gauges.get(name)!.set(labels as Partial<Record<Label, string>>, value);
  }

  /** A gauge without labels is removed, because reset() would set it to 0. */
  private reset(): void {
    for (const [name, gauge] of this.gauges) {
      if (MEASURES[name]!.labels.length > 0) gauge.reset();
      else gauge.remove();
    }
  }
}
