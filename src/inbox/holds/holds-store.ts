import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { Reads } from '../../database/reads.ts';
import { AuditLog } from '../../http/audit/audit-log.ts';
import { laneOf } from '../../lanes/lane-of.ts';
import type { HoldReason } from '../../lanes/lane-queue-types.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import type { Status } from '../messages-store.ts';
import { INBOX_LANES } from '../new-message.ts';
import { END_HOLD, LIST_HOLDS, PUT_HOLD, WHY } from './holds.sql.ts';

export interface HoldRow {
  readonly key: string;
  readonly lane: number;
  /** Null: indefinitely. */
  readonly until: Date | null;
  readonly kind: HoldReason;
  /** The operator's own text, else the kind. */
  readonly reason: string;
  readonly set_at: Date;
}

export interface WhyRow {
  readonly id: string;
  readonly status: Status;
  readonly key: string;
  readonly due_at: Date | null;
  readonly error: string | null;
  readonly hold_kind: HoldReason | null;
  readonly hold_reason: string | null;
  readonly hold_until: Date | null;
  readonly hold_since: Date | null;
  readonly dead_ahead: string | null;
  readonly replica: string | null;
  readonly leased: boolean;
  readonly leased_until: Date | null;
  readonly ahead: number;
}

export type HoldCursor = readonly [lane: number, key: string];

/** Holds that operators set. They only set the end of a hold; only the lane's owner changes the rows. */
@Injectable()
export class HoldsStore {
  constructor(
    private readonly database: Database,
    private readonly reads: Reads,
    private readonly wakeups: Wakeups,
    private readonly audit: AuditLog,
  ) {}

  async put(key: string, until: string | undefined, note: string, by: string): Promise<void> {
    await this.database.transaction(async (tx) => {
      await tx.execute(PUT_HOLD, [key, laneOf(key, INBOX_LANES), until ?? null, note]);
      await this.audit.record({ by, action: 'hold.put', target: key, filter: { until }, reason: note }, tx);
    });
  }

  /** False: the key is not held. */
  async end(key: string, by: string): Promise<boolean> {
    const lane = laneOf(key, INBOX_LANES);
    const ended = await this.database.transaction(async (tx) => {
      const found = (await tx.execute(END_HOLD, [lane, key])) > 0;
      if (found) await this.audit.record({ by, action: 'hold.end', target: key }, tx);
      return found;
    });
    if (ended) this.wakeups.announce('inbox', new Set([lane]));
    return ended;
  }

  list(
    { key, kind }: { readonly key?: string | undefined; readonly kind?: string | undefined },
    after: HoldCursor | undefined,
    limit: number,
  ): Promise<HoldRow[]> {
    return this.reads.query(LIST_HOLDS, [limit, ...(after ?? [-1, '']), key ?? null, kind ?? null]);
  }

  async why(position: number): Promise<WhyRow | undefined> {
    const [row] = await this.reads.query<WhyRow>(WHY, [position]);
    return row;
  }
}
