import { Inject, Injectable } from '@nestjs/common';
import { ScheduledJobs } from '../../clock/scheduled-jobs.ts';
import { formatDuration } from '../../config/duration.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Reads } from '../../database/reads.ts';
import { HistoryReader } from '../../history/history-reader.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import type { HistoryView } from './history.openapi.ts';

/** history.totals — over the blocks, of which there is one for up to 2,000 messages. */
export const TOTALS = `
  SELECT COALESCE(sum(count), 0)::float8 AS messages, count(*)::int AS blocks, COALESCE(sum(octet_length(body)), 0)::float8 AS bytes,
         min(from_at) AS oldest, max(to_at) AS newest
  FROM archive_block`;

interface Totals {
  readonly messages: number;
  readonly blocks: number;
  readonly bytes: number;
  readonly oldest: Date | null;
  readonly newest: Date | null;
}

const INTERVAL_MS = 60_000;

/** How much is in history, and from when it is complete. */
@Injectable()
export class HistoryStatus {
  private readonly gauges;

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly reads: Reads,
    private readonly reader: HistoryReader,
    jobs: ScheduledJobs,
    metrics: Metrics,
  ) {
    this.gauges = {
      messages: metrics.gauge('history_messages', 'Messages in history.'),
      bytes: metrics.gauge('history_bytes', 'Size of the blocks of history, compressed.'),
      oldest: metrics.gauge(
        'history_oldest_timestamp_seconds',
        'When the oldest message in history was received; 0: there is none.',
      ),
      complete: metrics.gauge(
        'history_complete_from_timestamp_seconds',
        'Messages of a pattern of HISTORY may be missing if they were received before this time; 0: none is missing.',
        { labelNames: ['pattern'] },
      ),
    };
    jobs.add({
      role: 'upkeep',
      name: 'history-metrics',
      intervalMs: INTERVAL_MS,
      runAtStart: true,
      run: () => this.observe(),
    });
  }

  async view(): Promise<HistoryView> {
    const [totals, types] = await Promise.all([this.totals(), this.types()]);
    return { ...totals, types };
  }

  private async totals(): Promise<Totals> {
    const [row] = await this.reads.query<Totals>(TOTALS);
    return row!;
  }

  private types() {
    return Promise.all(
      this.settings.history.map(async ({ pattern, ms }) => ({
        pattern,
        kept: ms === undefined ? 'forever' : formatDuration(ms),
        completeFrom: (await this.reader.completeFrom([pattern])) ?? null,
      })),
    );
  }

  private async observe(): Promise<void> {
    const [{ messages, bytes, oldest }, types] = await Promise.all([this.totals(), this.types()]);
    this.gauges.messages.set(messages);
    this.gauges.bytes.set(bytes);
    this.gauges.oldest.set(seconds(oldest));
    for (const { pattern, completeFrom } of types)
      this.gauges.complete.set({ pattern }, seconds(completeFrom));
  }
}

function seconds(time: Date | null): number {
  return time === null ? 0 : time.getTime() / 1000;
}
