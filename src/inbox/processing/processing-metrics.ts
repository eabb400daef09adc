import { Injectable } from '@nestjs/common';
import { Metrics } from '../../telemetry/metrics.ts';
import type { ClaimedMessage } from '../claimed-message.ts';
import type { Failure } from './decide.ts';

@Injectable()
export class ProcessingMetrics {
  readonly unhandled;
  /** E10: messages that denormalizers sent. */
  readonly sent;
  private readonly ended;
  private readonly attemptsFailed;
  private readonly inFlight;
  private readonly batchMessages;
  private readonly batchSeconds;
  private readonly latencySeconds;

  constructor(metrics: Metrics) {
    this.ended = metrics.counter({
      name: 'messages_ended_total',
      help: 'Messages that were settled, by final status.',
      labelNames: ['status'],
    });
    // Present from the start: Prometheus does not see an increase of a series that did not exist.
    for (const status of ['finished', 'dead', 'expired', 'superseded']) this.ended.inc({ status }, 0);
    this.attemptsFailed = metrics.counter({
      name: 'inbox_attempts_failed_total',
      help: 'Failed attempts to apply a message, by outcome: retry, deferred or dead.',
      labelNames: ['outcome'],
    });
    this.unhandled = metrics.counter({
      name: 'messages_unhandled_total',
      help: 'Messages of a type that no denormalizer handles.',
    });
    this.sent = metrics.counter({
      name: 'messages_sent_total',
      help: 'Messages that denormalizers sent.',
    });
    this.inFlight = metrics.gauge({
      name: 'inbox_batches_in_flight',
      help: 'Processing transactions of this replica that are in flight.',
    });
    this.batchMessages = metrics.histogram({
      name: 'inbox_batch_messages',
      help: 'How many messages one processing transaction applied.',
      buckets: [1, 2, 5, 10, 25, 50, 100, 250, 500],
    });
    this.batchSeconds = metrics.histogram({
      name: 'inbox_batch_seconds',
      help: 'How long one processing transaction took.',
      buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5],
    });
    this.latencySeconds = metrics.histogram({
      name: 'message_latency_seconds',
      help: 'From received to finished.',
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300],
    });
  }

  started(rows: readonly ClaimedMessage[]): (applied: boolean) => void {
    const end = this.batchSeconds.startTimer();
    this.inFlight.inc();
    return (applied) => {
      end();
      this.inFlight.dec();
      if (applied) this.batchMessages.observe(rows.length);
    };
  }

  /** Reads the clock once for the whole batch. */
  finished(rows: readonly ClaimedMessage[]): void {
    this.ended.inc({ status: 'finished' }, rows.length);
    const now = Date.now();
    for (const row of rows) this.latencySeconds.observe(Math.max(0, now - row.received_at.getTime()) / 1000);
  }

  endedWith(lapses: readonly { readonly status: string }[]): void {
    for (const { status } of lapses) this.ended.inc({ status });
  }

  expired(count: number): void {
    this.ended.inc({ status: 'expired' }, count);
  }

  failed({ kind }: Failure): void {
    this.attemptsFailed.inc({ outcome: kind });
    if (kind === 'dead') this.ended.inc({ status: 'dead' });
  }
}
