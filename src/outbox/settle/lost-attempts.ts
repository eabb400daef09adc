import { Inject, Injectable } from '@nestjs/common';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { type FailedAttempt, OutboxStore } from '../outbox-store.ts';
import { type Item, type Tried, wasSent } from './delivery-result.ts';

/**
 * Records calls whose result could not be written. The next holder of the lane sends these deliveries again; why, only
 * this replica knows if the database lost the claim in a crash. So it is recorded beside what the next holder does.
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

function lostAttempt({ delivery, answer }: Tried, reason: string): FailedAttempt {
  const answered = answer.kind === 'answered';
  const error = `${answered ? `answered ${answer.status}` : answer.detail}; ${reason}`;
  const status = answered ? answer.status : undefined;
  const excerpt = answered ? answer.excerpt : undefined;
  return { delivery, status, error, excerpt, durationMs: answer.durationMs };
}
