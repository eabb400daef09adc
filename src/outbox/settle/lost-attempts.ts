import { Inject, Injectable } from '@nestjs/common';
import { isDatabaseAway } from '../../database/errors.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { type FailedAttempt, OutboxStore } from '../outbox-store.ts';
import { type Item, type SentDelivery, wasSent } from './delivery-result.ts';
import { retryDelay } from './uncertain-commits.ts';

/** Retries while the database is there. */
const MAX_FAILURES = 3;
/** How long recording is retried while the database is away: nothing else can be written meanwhile. */
const MAX_AWAY_MS = 60_000;

/**
 * Records calls whose result could not be written. The next owner of the lane sends these deliveries again; why, only
 * this replica knows if the database lost the claim in a crash. So it is recorded in addition to what the next owner does.
 */
@Injectable()
export class LostAttempts {
  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly store: OutboxStore,
  ) {}

  async record(items: readonly Item[], reason: string): Promise<void> {
    const attempts = items.filter(wasSent).map((item) => lostAttempt(item, reason));
    if (attempts.length === 0) return;
    const endsAtMs = performance.now() + MAX_AWAY_MS;
    for (let tries = 1, failures = 0; ; tries++) {
      try {
        return await this.store.recordLost(attempts, tries > 1);
      } catch (error) {
        if (!isDatabaseAway(error)) failures += 1;
        const isLast = failures >= MAX_FAILURES || performance.now() > endsAtMs;
        this.reportFailure(attempts, isLast, error);
        if (isLast) return;
      }
      await retryDelay();
    }
  }

  private reportFailure(attempts: readonly FailedAttempt[], isLast: boolean, error: unknown): void {
    this.log.warn(
      { event: 'outbox.record-failed', deliveries: attempts.map(({ delivery }) => delivery.id), error },
      isLast
        ? 'attempts could not be recorded; these deliveries may be sent again, and their attempts do not show why'
        : 'recording attempts failed; it is retried',
    );
  }
}

function lostAttempt({ delivery, callResult }: SentDelivery, reason: string): FailedAttempt {
  const responded = callResult.kind === 'responded';
  const error = `${responded ? `responded ${callResult.status}` : callResult.detail}; ${reason}`;
  const status = responded ? callResult.status : undefined;
  const excerpt = responded ? callResult.excerpt : undefined;
  return { delivery, status, error, excerpt, durationMs: callResult.durationMs };
}
