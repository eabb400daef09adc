import { Injectable } from '@nestjs/common';
import { Metrics } from '../telemetry/metrics.ts';
import { Listeners } from './listeners.ts';

@Injectable()
export class ListenerMetrics {
  constructor(metrics: Metrics, listeners: Listeners) {
    metrics.gauge({
      name: 'listeners',
      help: 'How many listeners there are, by state.',
      labelNames: ['state'],
      collect() {
        for (const state of ['active', 'paused', 'disabled'] as const)
          this.set({ state }, listeners.all().filter((listener) => listener.state === state).length);
      },
    });
    metrics.gauge({
      name: 'listener_secrets',
      help: 'How many listeners are sealed with which master key; one without any can be taken out of SECRETS_KEYS.',
      labelNames: ['key'],
      collect() {
        this.reset();
        for (const key of listeners.masterKeys()) this.inc({ key });
      },
    });
  }
}
