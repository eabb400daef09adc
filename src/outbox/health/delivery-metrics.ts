import { Injectable } from '@nestjs/common';
import type { Counter, Histogram } from 'prom-client';
import { Metrics } from '../../telemetry/metrics.ts';
import type { Tried } from '../settle/delivery-result.ts';

const TOO_MANY = 429;

interface ListenerCounters {
  readonly attempts: Partial<Record<Tried['outcome']['kind'], Counter.Internal>>;
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

  constructor(metrics: Metrics) {
    this.attempts = metrics.counter({
      name: 'deliveries_attempted_total',
      help: 'Attempts to deliver, by listener and outcome.',
      labelNames: ['listener', 'outcome'],
    });
    this.seconds = metrics.histogram({
      name: 'delivery_attempt_seconds',
      help: 'Duration of an attempt until the receiver answered or the call failed.',
      labelNames: ['listener'],
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60],
    });
    this.latencySeconds = metrics.histogram({
      name: 'delivery_latency_seconds',
      help: 'Time from the fan-out (or a revival or replay) to the successful answer.',
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300, 3600],
    });
    this.throttled = metrics.counter({
      name: 'deliveries_throttled_total',
      help: 'Attempts answered with 429, by listener.',
      labelNames: ['listener'],
    });
    this.inFlight = metrics.gauge({
      name: 'deliveries_in_flight',
      help: 'Calls of this replica to receivers in flight.',
    });
    this.replayedTotal = metrics.counter({
      name: 'deliveries_replayed_total',
      help: 'Deliveries reopened by a replay.',
    });
  }

  settled({ listener, outcome, answer, delivery }: Tried): void {
    const { attempts, seconds } = this.of(listener.name);
    attempts[outcome.kind] ??= this.attempts.labels(listener.name, outcome.kind);
    attempts[outcome.kind]!.inc();
    seconds.observe(answer.durationMs / 1000);
    if (answer.kind === 'answered' && answer.status === TOO_MANY)
      this.throttled.inc({ listener: listener.name });
    if (outcome.kind === 'delivered')
      this.latencySeconds.observe((delivery.age_ms + answer.durationMs) / 1000);
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
