import { Injectable } from '@nestjs/common';
import { Loops } from '../clock/loops.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { RebuildStatements } from './rebuild-statements.ts';
import { rebuildView } from './rebuild-view.ts';

const INTERVAL_MS = 5_000;

/** Notes how far rebuilds are, for their rate, and as metrics. */
@Injectable()
export class RebuildProgress {
  private readonly gauges;

  constructor(
    private readonly statements: RebuildStatements,
    metrics: Metrics,
    loops: Loops,
  ) {
    const labelNames = ['model'];
    this.gauges = {
      done: metrics.gauge('rebuild_done_messages', 'Messages that an open rebuild has read.', { labelNames }),
      expected: metrics.gauge(
        'rebuild_expected_messages',
        'Messages that an open rebuild has to read, counted when its replay began.',
        { labelNames },
      ),
      left: metrics.gauge(
        'rebuild_left_seconds',
        'How long the replay of a rebuild will take, at the rate of the last minute. Absent if it makes no progress.',
        { labelNames },
      ),
    };
    loops.every('inbox', 'rebuild-progress', INTERVAL_MS, () => this.note());
  }

  async note(): Promise<void> {
    await this.statements.sample();
    const open = (await this.statements.view(undefined)).filter(({ ended_at }) => ended_at === null);
    for (const gauge of Object.values(this.gauges)) gauge.reset();
    for (const { model, done, total, secondsLeft } of open.map(rebuildView)) {
      this.gauges.done.set({ model }, done);
      this.gauges.expected.set({ model }, total);
      if (secondsLeft !== undefined) this.gauges.left.set({ model }, secondsLeft);
    }
  }
}
