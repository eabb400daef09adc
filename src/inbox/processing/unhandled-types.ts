import { Inject, Injectable } from '@nestjs/common';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { Denormalizers } from '../denormalizers/denormalizers.ts';
import type { ClaimedMessage } from '../inbox-queue.ts';
import { ProcessingMetrics } from './processing-metrics.ts';

/** How many types are logged as a warning. */
const MAX_TYPES = 1_000;

/** A type without a handler is not an error, but it is logged and counted. */
@Injectable()
export class UnhandledTypes {
  private readonly known = new Set<string>();

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly denormalizers: Denormalizers,
    private readonly metrics: ProcessingMetrics,
  ) {}

  report(rows: readonly ClaimedMessage[]): void {
    const unhandled = rows.filter(({ type }) => this.denormalizers.of(type).length === 0);
    if (unhandled.length === 0) return;
    this.metrics.unhandled.inc(unhandled.length);
    const types = [...new Set(unhandled.map(({ type }) => type))];
    const firstSeen = types.filter((type) => this.isFirstReport(type));
    this.log[firstSeen.length ? 'warn' : 'debug'](
      { event: 'inbox.unhandled', types: firstSeen.length ? firstSeen : types, messages: unhandled.length },
      'no denormalizer handles these types',
    );
  }

  /** Producers choose the types: beyond the limit, new ones no longer fill the log. */
  private isFirstReport(type: string): boolean {
    const isFirst = !this.known.has(type) && this.known.size < MAX_TYPES;
    if (isFirst) this.known.add(type);
    return isFirst;
  }
}
