import type { Metrics } from '../../telemetry/metrics.ts';

const OUTCOMES = ['done', 'undone'] as const;

/** Moves that this replica has ended. */
export class MoveMetrics {
  private readonly ended;
  private readonly pause;

  constructor(metrics: Metrics) {
    this.ended = metrics.counterOf('cell_moves_total', 'Moves of slots that ended.', 'outcome', OUTCOMES);
    this.pause = metrics.histogram(
      'cell_move_pause_seconds',
      'How long posts of a slot waited while it was moved.',
      [0.1, 0.25, 0.5, 1, 2, 5, 10, 30],
    );
  }

  done(pauseMs: number): void {
    this.ended.inc({ outcome: 'done' });
    this.pause.observe(pauseMs / 1_000);
  }

  undone(): void {
    this.ended.inc({ outcome: 'undone' });
  }
}
