import { Inject, Injectable } from '@nestjs/common';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { type FailedAttempt, OutboxStore } from '../outbox-store.ts';
import { type Item, type SentDelivery, wasSent } from './delivery-result.ts';

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
    try {
      await this.store.recordLost(attempts);
    } catch (error) {
      this.log.warn(
        { event: 'outbox.record-failed', deliveries: attempts.map(({ delivery }) => delivery.id), error },
        'attempts could not be recorded; these deliveries may be sent again, and their attempts do not show why',
      );
    }
  }
}

function lostAttempt({ delivery, callResult }: SentDelivery, reason: string): FailedAttempt {
  const responded = callResult.kind === 'responded';
  const error = `${responded ? `responded ${callResult.status}` : callResult.detail}; ${reason}`;
  const status = responded ? callResult.status : undefined;
  const excerpt = responded ? callResult.excerpt : undefined;
  return { delivery, status, error, excerpt, durationMs: callResult.durationMs };
}
