import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import type { RateLimitRule } from '../../listeners/listener.ts';
import { HAND_OUT, LOCK_ALL_LANES, LOCK_FREE_LANES, NEXT_HOLD, PULL_SETTINGS } from './hand-out.sql.ts';

/** A delivery that was handed out, with its message. */
export interface HandedOutDelivery {
  readonly lane: number;
  readonly position: number;
  readonly attempt: number;
  readonly sequence: number;
  readonly bytes: number;
  readonly id: string;
  readonly type: string;
  readonly key: string;
  /** JSON text, as it was posted. */
  readonly payload: string;
  /** JSON text, or null. */
  readonly headers: string | null;
  readonly timestamp: string;
}

/** Which one it is, without its message. */
export type DeliveryPlace = Pick<HandedOutDelivery, 'lane' | 'position' | 'attempt'>;

export interface HandOutRequest {
  readonly listener: number;
  readonly token: string;
  readonly maxRows: number;
  readonly maxBytes: number;
  readonly leaseMs: number;
  readonly maxInFlight: number;
  readonly rateLimit: RateLimitRule | undefined;
  /** Deliveries of a key wait for each other. */
  readonly ordered: boolean;
  /** How many times the share of a lane in `maxRows` is read of each lane: more when lanes differ, or keys block each other. */
  readonly depth: number;
}

/** What was handed out; if nothing, why. */
export interface HandOut {
  readonly rows: readonly HandedOutDelivery[];
  /** Before this hand-out. */
  readonly inFlight: number;
  /** The rate limit is reached. */
  readonly limited: boolean;
  /** There are deliveries that wait for others of their key. */
  readonly keysInFlight: boolean;
  /** Some lanes have more than was read. */
  readonly more: boolean;
}

interface Counts {
  readonly parked: number;
  readonly inFlight: number;
  readonly permits: number | null;
  readonly keysInFlight: boolean;
  readonly more: boolean;
}

/** A limit of this or more counts as none. */
const NO_LIMIT = 10_000;
/** Hand-outs in a row that only parked deliveries of keys that wait. */
const MAX_PARKING = 25;

@Injectable()
export class HandOutStore {
  constructor(private readonly database: Database) {}

  /** Hands out what there is, waiting for transactions that have locked lanes only if there is nothing else. */
  async handOut(request: HandOutRequest): Promise<HandOut> {
    for (let parking = 1; ; parking++) {
      let found = await this.tryHandOut(request, LOCK_FREE_LANES);
      if (found.rows.length === 0 && found.skipped) found = await this.tryHandOut(request, LOCK_ALL_LANES);
      if (found.rows.length > 0 || found.parked === 0 || parking === MAX_PARKING) return found;
    }
  }

  /** Until a key is no longer held; undefined: that is not known. */
  async nextHoldMs(listener: number): Promise<number | undefined> {
    const [row] = await this.database.query<{ ms: number | null }>(NEXT_HOLD, [listener]);
    return row!.ms ?? undefined;
  }

  private async tryHandOut(
    request: HandOutRequest,
    lockLanes: string,
  ): Promise<HandOut & { readonly parked: number; readonly skipped: boolean }> {
    const { listener } = request;
    const results = await this.database.inOneRoundTrip([
      [PULL_SETTINGS],
      [lockLanes, [listener]],
      [HAND_OUT, valuesOf(request)],
    ]);
    const [{ lanes, locked }] = results[1] as [{ lanes: number; locked: number }];
    const found = results[2] as (HandedOutDelivery & Counts)[];
    const { parked, inFlight, permits, keysInFlight, more } = found[0]!;
    return {
      rows: found.filter(({ position }) => position !== null).sort((a, b) => a.position - b.position),
      inFlight,
      limited: permits !== null && permits < 1,
      keysInFlight,
      more,
      parked,
      skipped: locked < lanes,
    };
  }
}

function valuesOf(request: HandOutRequest): unknown[] {
  const { listener, maxRows, maxBytes, token, leaseMs, maxInFlight, rateLimit } = request;
  const rule = rateLimit && rateLimit.perSecond < NO_LIMIT ? rateLimit : undefined;
  const rate = [rule?.perSecond ?? null, rule?.burst ?? null];
  return [listener, maxRows, maxBytes, token, leaseMs, maxInFlight, ...rate, request.depth, request.ordered];
}
