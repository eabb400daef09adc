import { Injectable } from '@nestjs/common';
import { Metrics } from '../telemetry/metrics.ts';

export type Stage = 'inbox' | 'outbox';

/** Lost leases and take-overs between replicas, by stage. */
@Injectable()
export class LaneMetrics {
  private readonly lost;
  private readonly fenced;
  private readonly taken;

  constructor(metrics: Metrics) {
    this.lost = metrics.counter({
      name: 'leases_lost_total',
      help: 'Lanes that another replica took over although this one had not released them.',
      labelNames: ['stage'],
    });
    this.fenced = metrics.counter({
      name: 'fenced_writes_total',
      help: 'Transactions that were rolled back because one of their lanes was lost.',
      labelNames: ['stage'],
    });
    this.taken = metrics.counter({
      name: 'taken_over_total',
      help: 'Messages or deliveries that a crashed or frozen replica had in flight; such deliveries are sent again.',
      labelNames: ['stage'],
    });
    for (const stage of ['inbox', 'outbox'])
      for (const counter of [this.lost, this.fenced, this.taken]) counter.inc({ stage }, 0);
  }

  leasesLost(stage: Stage, lanes: number): void {
    this.lost.inc({ stage }, lanes);
  }

  fencedWrite(stage: Stage): void {
    this.fenced.inc({ stage });
  }

  takenOver(stage: Stage, rows: number): void {
    this.taken.inc({ stage }, rows);
  }
}
