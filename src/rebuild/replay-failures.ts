import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { Alerts } from '../contract/alerts.ts';
import { Database } from '../database/database.ts';
import type { Transaction } from '../database/transaction.ts';
import { decide, type Failure } from '../inbox/processing/failures.ts';
import type { ReplayMessage } from './lane-source.ts';
import type { LaneCursor, Rebuild } from './rebuild.ts';
import {
  LANES_FAILED,
  LANES_WAITING,
  LOCK_AT_WORK,
  LOCK_LANE,
  RECORD_FAILURE,
  STOP,
  TRY_AGAIN,
} from './replay-failures.sql.ts';

/** Of `INBOX_RETRY_SCHEDULE`: an operator waits for the result, so a rebuild does not try for as long as live traffic does. */
const MAX_RETRIES = 3;
/** What a message waits for was applied long ago, or will be soon. */
const MAX_WAIT_MS = 5_000;
/** Deferred so often while nothing else can be applied: what it waits for does not come. */
const MAX_DEFERS = 10;

/** The next message of a lane, which failed. */
export interface FailedMessage {
  readonly row: ReplayMessage;
  /** Where the lane was before it. */
  readonly at: LaneCursor;
  readonly reason: unknown;
  /** All lanes that have messages have failed: there is nothing that it could wait for. */
  readonly stuck: boolean;
}

/** What becomes of a message that fails in a rebuild: it is retried; then it stops the rebuild, or is left out. */
@Injectable()
export class ReplayFailures {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Pick<Settings, 'inboxRetrySchedule'>,
    private readonly database: Database,
    private readonly alerts: Alerts,
  ) {}

  /** Lanes whose next message is not to be tried now. */
  async waiting(rebuild: Rebuild): Promise<ReadonlySet<number>> {
    return lanesOf(await this.database.query(LANES_WAITING, [rebuild.id]));
  }

  /** Lanes whose next message has failed. */
  async lanes(rebuild: Rebuild): Promise<ReadonlySet<number>> {
    return lanesOf(await this.database.query(LANES_FAILED, [rebuild.id]));
  }

  /** Does nothing if another replica has applied the message meanwhile. */
  async settle(rebuild: Rebuild, { row, at, reason, stuck }: FailedMessage): Promise<void> {
    await this.database.transaction(async (tx) => {
      const [open] = await tx.query(LOCK_AT_WORK, [rebuild.id]);
      if (!open) return;
      const place = [rebuild.id, at.lane, at.applied, at.position];
      const [lane] = await tx.query<{ attempts: number }>(LOCK_LANE, place);
      if (!lane) return;
      const attempts = lane.attempts + 1;
      const failure = decideInRebuild(reason, attempts, this.settings.inboxRetrySchedule, stuck);
      const afterMs = failure.kind === 'dead' ? null : Math.min(MAX_WAIT_MS, failure.afterMs);
      await tx.execute(TRY_AGAIN, [rebuild.id, row.lane, attempts, afterMs]);
      if (failure.kind === 'dead') await this.giveUp(rebuild, row, failure.error, tx);
    });
  }

  /** Stops the rebuild, or leaves the message out if that was asked for. */
  private async giveUp(rebuild: Rebuild, row: ReplayMessage, error: string, tx: Transaction): Promise<void> {
    const { position, id, source, type, key } = row;
    if (rebuild.options.recordFailures) {
      const values = [rebuild.id, position, source, id, error, 'recordFailures', null];
      await tx.execute(RECORD_FAILURE, values);
      return;
    }
    const failure = { position, id, source, type, key, error };
    await tx.execute(STOP, [rebuild.id, JSON.stringify(failure)]);
    const details = { readModel: rebuild.model, ...failure };
    await this.alerts.raise({ name: 'rebuild-stopped', key: rebuild.model, details }, tx);
  }
}

function lanesOf(rows: readonly { readonly lane: number }[]): ReadonlySet<number> {
  return new Set(rows.map(({ lane }) => lane));
}

/** Pure. As for a live message, but sooner: an operator waits for the result. */
export function decideInRebuild(
  error: unknown,
  attempts: number,
  retryScheduleMs: readonly number[],
  stuck: boolean,
): Failure {
  const failure = decide(error, attempts, retryScheduleMs.slice(0, MAX_RETRIES));
  if (failure.kind !== 'deferred' || !stuck || attempts < MAX_DEFERS) return failure;
  const times = `deferred ${attempts} times, and nothing else is left that it could wait for`;
  return { kind: 'dead', error: `${failure.error} (${times})` };
}
