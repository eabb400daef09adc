import { Injectable } from '@nestjs/common';
import type { Counter, Histogram } from 'prom-client';
import { Activity } from '../../telemetry/activity.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import type { SentDelivery } from '../settle/delivery-result.ts';

const TOO_MANY = 429;

interface ListenerCounters {
  readonly attempts: Partial<Record<SentDelivery['outcome']['kind'], Counter.Internal>>;
  readonly seconds: Histogram.Internal<'listener'>;
}

@Injectable()
export class DeliveryMetrics {
  private readonly attempts;
  private readonly seconds;
  private readonly latencySeconds;
  private readonly throttled;
  private readonly inFlight;
  private readonly replayedTotal;
  private readonly known = new Map<string, ListenerCounters>();

  constructor(
    metrics: Metrics,
    private readonly activity: Activity,
  ) {
    this.attempts = metrics.counter(
      'deliveries_attempted_total',
      'Attempts to deliver, by listener and outcome.',
      ['listener', 'outcome'],
    );
    this.seconds = metrics.histogram(
      'delivery_attempt_seconds',
      'Duration of an attempt until the receiver responded or the call failed.',
      [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60],
      ['listener'],
    );
    this.latencySeconds = metrics.histogram(
      'delivery_latency_seconds',
      'Time from the fan-out (or a revival or replay) to the successful response.',
      [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300, 3600],
    );
    this.throttled = metrics.counter('deliveries_throttled_total', 'Attempts that got a 429, by listener.', [
      'listener',
    ]);
    this.inFlight = metrics.gauge('deliveries_in_flight', 'Calls of this replica to receivers in flight.');
    this.replayedTotal = metrics.counter('deliveries_replayed_total', 'Deliveries reopened by a replay.');
  }

  settled({ listener, outcome, callResult, delivery }: SentDelivery): void {
    const { attempts, seconds } = this.of(listener.name);
    attempts[outcome.kind] ??= this.attempts.labels(listener.name, outcome.kind);
    attempts[outcome.kind]!.inc();
    seconds.observe(callResult.durationMs / 1000);
    this.activity.attempted(listener.name, outcome.kind === 'delivered', callResult.durationMs);
    if (callResult.kind === 'responded' && callResult.status === TOO_MANY)
      this.throttled.inc({ listener: listener.name });
    if (outcome.kind === 'delivered')
      this.latencySeconds.observe((delivery.age_ms + callResult.durationMs) / 1000);
  }

  /** The labels are looked up once: doing that for every delivery would cost as much as the counting. */
  private of(listener: string): ListenerCounters {
    let known = this.known.get(listener);
    if (!known) {
      known = { attempts: {}, seconds: this.seconds.labels(listener) };
      this.known.set(listener, known);
    }
    return known;
  }

  /** Counts the call as in flight until it settles. */
  async calling<T>(call: Promise<T>): Promise<T> {
    this.inFlight.inc();
    try {
      return await call;
    } finally {
      this.inFlight.dec();
    }
  }

  replayed(deliveries: number): void {
    this.replayedTotal.inc(deliveries);
  }
}
