import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { EXPIRED, HANDED_OUT, LOCK_LEASES, NEXT_EXPIRY, SETTLE, SETTLE_SETTINGS } from './lease.sql.ts';
import type { LeaseRef } from './lease-token.ts';
import type { Settling } from './settling.ts';

/** done: recorded. fenced: the lease has run out, or somebody else has the message; nothing is recorded. */
export type LeaseOutcome = 'done' | 'fenced' | 'unknown';

export interface SettledLease {
  readonly outcome: LeaseOutcome;
  /** It was settled now, not by an earlier request. */
  readonly changed: boolean;
  /** Since it was handed out. */
  readonly durationMs: number | null;
}

@Injectable()
export class LeaseStore {
  constructor(private readonly database: Database) {}

  /** In one round trip; the outcomes are in the order of the leases. No lease may be there twice. */
  async settle(all: readonly Settling[]): Promise<SettledLease[]> {
    const lanes = all.map(({ ref }) => ref.lane);
    const positions = all.map(({ ref }) => ref.position);
    const results = await this.database.inOneRoundTrip([
      [SETTLE_SETTINGS],
      [LOCK_LEASES, [lanes, positions]],
      [
        SETTLE,
        [
          lanes,
          positions,
          all.map(({ ref }) => ref.attempt),
          all.map(({ ref }) => ref.token),
          all.map(({ kind }) => kind),
          all.map(({ late }) => late),
          all.map(({ ms }) => ms ?? null),
          all.map(({ hold }) => hold ?? null),
          all.map(({ error }) => error ?? null),
        ],
      ],
    ]);
    return results.at(-1) as SettledLease[];
  }

  expired(limit: number): Promise<LeaseRef[]> {
    return this.database.query(EXPIRED, [limit]);
  }

  /** Until the next lease expires; undefined: there is none. */
  async nextExpiryMs(): Promise<number | undefined> {
    const [row] = await this.database.query<{ ms: number | null }>(NEXT_EXPIRY);
    return row!.ms ?? undefined;
  }

  /** What a hand-out leased whose COMMIT had no reply. */
  handedOut(listener: number, token: string): Promise<LeaseRef[]> {
    return this.database.query(HANDED_OUT, [listener, token]);
  }
}
