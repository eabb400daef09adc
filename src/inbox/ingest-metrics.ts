import { Injectable } from '@nestjs/common';
import { HttpMetrics } from '../http/http-metrics.ts';
import { Activity } from '../telemetry/activity.ts';
import { Metrics } from '../telemetry/metrics.ts';
import type { Outcome } from './message-acceptor.ts';

@Injectable()
export class IngestMetrics {
  private readonly accepted;
  private readonly duplicates;
  private readonly flushMessages;
  private readonly flushSeconds;

  constructor(
    private readonly metrics: Metrics,
    http: HttpMetrics,
    private readonly activity: Activity,
  ) {
    this.accepted = metrics.counter('messages_accepted_total', 'Messages stored.');
    this.duplicates = metrics.counter(
      'messages_duplicate_total',
      'Messages that had been stored before, by how they were recognised: id or sequence.',
      ['reason'],
    );
    const refused = metrics.counter(
      'messages_refused_total',
      'Posts refused, by the problem that was returned.',
      ['reason'],
    );
    http.onProblem({ method: 'POST', route: '/v1/messages' }, (reason) => refused.inc({ reason }));
    this.flushMessages = metrics.histogram(
      'ingest_flush_messages',
      'Messages stored by one commit.',
      [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
    );
    this.flushSeconds = metrics.histogram(
      'ingest_flush_seconds',
      'How long one commit took.',
      [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5],
    );
  }

  watchQueue(read: () => { messages: number; bytes: number }): void {
    this.metrics.gauge('ingest_waiting_messages', 'Messages that wait to be stored.', {
      collect() {
        this.set(read().messages);
      },
    });
    this.metrics.gauge('ingest_waiting_bytes', 'Size of the request bodies that wait to be stored.', {
      collect() {
        this.set(read().bytes);
      },
    });
  }

  flushStarted(messages: number): () => void {
    this.flushMessages.observe(messages);
    return this.flushSeconds.startTimer();
  }

  count(outcomes: readonly Outcome[]): void {
    for (const outcome of outcomes) {
      if (outcome.kind === 'accepted') {
        this.accepted.inc();
        this.activity.accepted();
      } else if (outcome.kind === 'duplicate') this.duplicates.inc({ reason: outcome.knownBy });
    }
  }
}
