import { Injectable } from '@nestjs/common';
import { Metrics } from '../telemetry/metrics.ts';

export const STAGES = ['inbox', 'outbox'] as const;
export type Stage = (typeof STAGES)[number];

/** Lost leases and take-overs between replicas, by stage. */
@Injectable()
export class LaneMetrics {
  private readonly lost;
  private readonly fenced;
  private readonly taken;

  constructor(metrics: Metrics) {
    const byStage = (name: string, help: string) => metrics.counterOf(name, help, 'stage', STAGES);
    this.lost = byStage(
      'leases_lost_total',
      'Lanes that another replica took over although this one had not released them.',
    );
    this.fenced = byStage(
      'fenced_writes_total',
      'Transactions that were rolled back because one of their lanes was lost.',
    );
    this.taken = byStage(
      'taken_over_total',
      'Messages or deliveries that a crashed or frozen replica had in flight; such deliveries are sent again.',
    );
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
