import { Injectable } from '@nestjs/common';
import { Activity } from '../../telemetry/activity.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import type { ClaimedMessage } from '../inbox-queue.ts';
import type { Failure } from './failures.ts';

@Injectable()
export class ProcessingMetrics {
  readonly unhandled;
  /** Messages that denormalizers sent. */
  readonly sent;
  private readonly ended;
  private readonly attemptsFailed;
  private readonly inFlight;
  private readonly batchMessages;
  private readonly batchSeconds;
  private readonly latencySeconds;

  constructor(
    metrics: Metrics,
    private readonly activity: Activity,
  ) {
    this.ended = metrics.counterOf(
      'messages_ended_total',
      'Messages that were settled, by final status.',
      'status',
      ['finished', 'dead', 'expired', 'superseded'],
    );
    this.attemptsFailed = metrics.counter(
      'inbox_attempts_failed_total',
      'Failed attempts to apply a message, by outcome: retry, deferred or dead.',
      ['outcome'],
    );
    this.unhandled = metrics.counter(
      'messages_unhandled_total',
      'Messages of a type that no denormalizer handles.',
    );
    this.sent = metrics.counter('messages_sent_total', 'Messages that denormalizers sent.');
    this.inFlight = metrics.gauge(
      'inbox_batches_in_flight',
      'Processing transactions of this replica that are in flight.',
    );
    this.batchMessages = metrics.histogram(
      'inbox_batch_messages',
      'How many messages one processing transaction applied.',
      [1, 2, 5, 10, 25, 50, 100, 250, 500],
    );
    this.batchSeconds = metrics.histogram(
      'inbox_batch_seconds',
      'How long one processing transaction took.',
      [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5],
    );
    this.latencySeconds = metrics.histogram(
      'message_latency_seconds',
      'Time from receiving a message to finishing it.',
      [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300],
    );
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
    this.activity.applied(rows.length);
    const now = Date.now();
    for (const row of rows) this.latencySeconds.observe(Math.max(0, now - row.received_at.getTime()) / 1000);
  }

  endedWith(messages: readonly { readonly status: string }[]): void {
    for (const { status } of messages) this.ended.inc({ status });
  }

  expired(count: number): void {
    this.ended.inc({ status: 'expired' }, count);
  }

  failed({ kind }: Failure): void {
    this.attemptsFailed.inc({ outcome: kind });
    this.activity.failed(kind === 'dead');
    if (kind === 'dead') this.ended.inc({ status: 'dead' });
  }
}
