import { Injectable } from '@nestjs/common';
import type { Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { Database } from '../../database/database.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { groupBy } from '../../database/group-by.ts';
import { tryLockLane } from '../../lanes/requeue-holds.ts';
import { ProcessingMetrics } from './processing-metrics.ts';
import { EXPIRED_REASON } from './settle-store.ts';

/**
 * inbox.expired — held messages that have expired. A claim ends expired messages that are ready; messages behind a hold
 * without an end are never claimed. $1 max
 */
export const EXPIRED = `
  SELECT position, lane FROM inbox
  WHERE settled_at IS NULL AND waits = 'held' AND expires_at <= statement_timestamp()
  ORDER BY expires_at LIMIT $1`;

/**
 * inbox.expiredScheduled — scheduled messages that expire before they are due. POST rejects them; a row that exists
 * nevertheless must not wait for its dueAt, which may be years away. $1 max
 */
export const EXPIRED_SCHEDULED = `
  SELECT position, lane FROM inbox
  WHERE settled_at IS NULL AND waits = 'due' AND expires_at <= due_at AND expires_at <= statement_timestamp()
  ORDER BY expires_at LIMIT $1`;

/** inbox.expire — in a locked lane; rows that its owner has claimed are left to it. $1 positions, $2 error */
export const EXPIRE = `
  UPDATE inbox SET status = 'expired', waits = NULL, settled_at = now(), lapsed_at = now(), error = $2
  WHERE position = ANY ($1::bigint[]) AND status IN ('held', 'scheduled')`;

const MAX_AT_ONCE = 1_000;
const REST_MS = 1_000;

interface Late {
  readonly position: number;
  readonly lane: number;
}

/** A message that is held, or waits for its dueAt, expires at its expiresAt too, and not when that wait ends. */
@Injectable()
export class ExpiredMessages {
  constructor(
    private readonly database: Database,
    private readonly metrics: ProcessingMetrics,
    loops: Loops,
  ) {
    loops.run('inbox', 'inbox-expired', REST_MS, () => this.pass());
  }

  private async pass(): Promise<Next> {
    const [, held, scheduled] = (await this.database.inOneRoundTrip([
      [FORCE_INDEX_PLANS],
      [EXPIRED, [MAX_AT_ONCE]],
      [EXPIRED_SCHEDULED, [MAX_AT_ONCE]],
    ])) as [unknown, Late[], Late[]];
    let ended = 0;
    for (const late of groupBy([...held, ...scheduled], ({ lane }) => lane)) ended += await this.expire(late);
    this.metrics.expired(ended);
    return ended >= MAX_AT_ONCE ? 'again' : 'idle';
  }

  /** Acts in place of the lane's owner; a lane whose owner is in a transaction right now is left for the next pass. */
  private expire(late: readonly Late[]): Promise<number> {
    return this.database.transaction(async (tx) => {
      if (!(await tryLockLane(tx, { stage: 'inbox', lane: late[0]!.lane }))) return 0;
      void tx.query(FORCE_INDEX_PLANS);
      return tx.execute(EXPIRE, [late.map(({ position }) => position), EXPIRED_REASON]);
    });
  }
}
