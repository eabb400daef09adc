import { Inject, Injectable } from '@nestjs/common';
import { ScheduledJobs } from '../../clock/scheduled-jobs.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Database } from '../../database/database.ts';
import {
  type Replication,
  readReplication,
  STANDBY_STATES,
  standbysNeeded,
} from '../../database/replication.ts';
import { Metrics } from '../../telemetry/metrics.ts';

/** Whether what was confirmed survives the loss of the primary, read every METRICS_INTERVAL and served from memory. */
@Injectable()
export class ReplicationMetrics {
  private readonly gauges;

  constructor(
    @Inject(SETTINGS_TOKEN) settings: Settings,
    private readonly database: Database,
    metrics: Metrics,
    jobs: ScheduledJobs,
  ) {
    jobs.add({
      role: 'upkeep',
      name: 'replication-metrics',
      intervalMs: settings.metricsInterval,
      runAtStart: true,
      run: () => this.observe(),
    });
    if (!settings.roles.includes('upkeep')) return;
    this.gauges = {
      survives: metrics.gauge(
        'database_survives_node_loss',
        '1 if a 202 survives the loss of the database server, because commits wait for a standby; 0 if only a restart.',
      ),
      needed: metrics.gauge('database_standbys_needed', 'How many standbys each commit waits for.'),
      standbys: metrics.gauge(
        'database_standbys',
        'Connected standbys: those that commits wait for (synchronous), that would take their place (potential), others (asynchronous), or not visible to the role (hidden).',
        { labelNames: ['state'] },
      ),
    };
    this.forget();
  }

  private async observe(): Promise<void> {
    try {
      this.show(await readReplication((sql) => this.database.query<Replication>(sql)));
    } catch (error) {
      this.forget();
      throw error;
    }
  }

  private show(replication: Replication): void {
    const { survives, needed, standbys } = this.gauges!;
    const count = standbysNeeded(replication);
    survives.set(count > 0 ? 1 : 0);
    needed.set(count);
    for (const state of STANDBY_STATES) standbys.set({ state }, replication[state]);
  }

  /** No value is better than an outdated one. A gauge without labels is removed, because reset() would set it to 0. */
  private forget(): void {
    const { survives, needed, standbys } = this.gauges!;
    survives.remove();
    needed.remove();
    standbys.reset();
  }
}
