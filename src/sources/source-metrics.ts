import { Injectable } from '@nestjs/common';
import { Metrics } from '../telemetry/metrics.ts';

@Injectable()
export class SourceMetrics {
  private readonly messages;
  private readonly failures;

  constructor(metrics: Metrics) {
    this.messages = metrics.counter(
      'source_messages_total',
      'Messages that were read from brokers, by outcome.',
      ['source', 'outcome'],
    );
    this.failures = metrics.counter(
      'source_failed_total',
      'How often a source could not be read; each is retried.',
      ['source'],
    );
  }

  count(source: string, outcome: 'accepted' | 'duplicate' | 'refused', by: number): void {
    if (by > 0) this.messages.inc({ source, outcome }, by);
  }

  failed(source: string): void {
    this.failures.inc({ source });
  }
}
