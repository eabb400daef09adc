import { Injectable } from '@nestjs/common';
import { Metrics } from '../telemetry/metrics.ts';
import { Listeners } from './listeners.ts';

@Injectable()
export class ListenerMetrics {
  constructor(metrics: Metrics, listeners: Listeners) {
    metrics.gauge('listeners', 'Number of listeners, by state.', {
      labelNames: ['state'],
      collect() {
        for (const state of ['active', 'paused', 'disabled'] as const)
          this.set({ state }, listeners.all().filter((listener) => listener.state === state).length);
      },
    });
    metrics.gauge(
      'listener_secrets',
      'Number of listeners whose secrets are encrypted with each key of SECRETS_KEYS; a key without any can be removed.',
      {
        labelNames: ['key'],
        collect() {
          this.reset();
          for (const key of listeners.masterKeys()) this.inc({ key });
        },
      },
    );
  }
}
