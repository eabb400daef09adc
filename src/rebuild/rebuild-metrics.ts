import { Injectable } from '@nestjs/common';
import { Metrics } from '../telemetry/metrics.ts';

@Injectable()
export class RebuildMetrics {
  private readonly messages;
  private readonly switchSeconds;

  constructor(metrics: Metrics) {
    this.messages = metrics.counter(
      'rebuild_messages_total',
      'Messages that rebuilds have read and applied to the next schema of a read model.',
      ['model'],
    );
    this.switchSeconds = metrics.histogram(
      'rebuild_switch_seconds',
      'How long no message was applied while a read model was switched.',
      [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2],
    );
  }

  replayed(model: string, count: number): void {
    if (count > 0) this.messages.inc({ model }, count);
  }

  switched(_model: string, pauseMs: number): void {
    this.switchSeconds.observe(pauseMs / 1_000);
  }
}
