import { Injectable } from '@nestjs/common';
import { Activity } from '../../telemetry/activity.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import type { HandedOutDelivery } from './hand-out-store.ts';
import type { Verdict } from './settling.ts';

const OUTCOMES = {
  acknowledge: 'acknowledged',
  retry: 'retried',
  reject: 'rejected',
  extend: 'extended',
  expired: 'expired',
  returned: 'returned',
} as const satisfies Record<Verdict['kind'], string>;

@Injectable()
export class PullMetrics {
  private readonly handedOutTotal;
  private readonly outcomes;
  private readonly seconds;
  private readonly fencedTotal;

  constructor(
    private readonly metrics: Metrics,
    private readonly activity: Activity,
  ) {
    this.handedOutTotal = metrics.counter(
      'pull_handed_out_total',
      'Messages handed out to consumers, by listener.',
      ['listener'],
    );
    this.outcomes = metrics.counter(
      'pull_leases_total',
      'Leases by listener and outcome: acknowledged, retried, rejected, expired, extended, returned (the consumer was gone before it had the message; no attempt is counted).',
      ['listener', 'outcome'],
    );
    this.seconds = metrics.histogram(
      'pull_lease_seconds',
      'Time from the hand-out of a message to its acknowledgement.',
      [0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 15, 30, 60, 300, 3600],
      ['listener'],
    );
    this.fencedTotal = metrics.counter(
      'pull_fenced_total',
      'Leases that a consumer tried to settle after they had expired, or that are unknown, by listener.',
      ['listener'],
    );
  }

  countWaiting(waiting: () => number): void {
    this.metrics.gauge('pulls_waiting', 'Requests to pull that wait for messages on this replica.', {
      collect() {
        this.set(waiting());
      },
    });
  }

  handedOut(listener: string, rows: readonly HandedOutDelivery[]): void {
    if (rows.length > 0) this.handedOutTotal.inc({ listener }, rows.length);
  }

  settled(listener: string, { kind }: Verdict, durationMs: number): void {
    this.outcomes.inc({ listener, outcome: OUTCOMES[kind] });
    if (kind === 'acknowledge') this.seconds.observe({ listener }, durationMs / 1000);
    if (kind !== 'extend' && kind !== 'returned')
      this.activity.attempted(listener, kind === 'acknowledge', durationMs);
  }

  fenced(listener: string, leases: number): void {
    if (leases > 0) this.fencedTotal.inc({ listener }, leases);
  }
}
