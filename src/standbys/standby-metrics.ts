import type { Counter } from 'prom-client';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Standby } from './standby.ts';

/** Why a read that a standby could have served went to the primary, unless it was served. */
const OUTCOMES = ['served', 'behind', 'failed', 'none-usable'] as const;
export type ReadOutcome = (typeof OUTCOMES)[number];

/** Metrics of READ_DATABASE_URL. */
export class StandbyMetrics {
  private readonly reads: Counter<'outcome'>;

  constructor(metrics: Metrics, standbys: readonly Standby[]) {
    this.reads = metrics.counterOf(
      'read_standby_requests_total',
      'Reads of read models: served by a standby, or by the primary because the standby was behind the message in `after`, failed, or none was usable.',
      'outcome',
      OUTCOMES,
    );
    metrics.gauge('read_standby_up', '1 if the standby serves reads, 0 if it is left out.', {
      labelNames: ['standby'],
      collect() {
        for (const { address, usable } of standbys) this.set({ standby: address }, usable ? 1 : 0);
      },
    });
    metrics.gauge(
      'read_standby_lag_seconds',
      'How far each standby is behind the primary. Absent: not known.',
      {
        labelNames: ['standby'],
        collect() {
          this.reset();
          for (const { address, judgement } of standbys)
            if (judgement.lagMs !== undefined) this.set({ standby: address }, judgement.lagMs / 1000);
        },
      },
    );
  }

  read(outcome: ReadOutcome): void {
    this.reads.inc({ outcome });
  }
}
