import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { OBSERVE } from './observation.sql.ts';

/** One value of a measure, as the database has it. */
export interface Observed {
  readonly name: string;
  readonly stage: string | null;
  readonly listener: string | null;
  /** A status or a reason, as the measure has it. */
  readonly kind: string | null;
  readonly value: number;
}

/** Rows counted of one kind over all listeners; what is beyond is not looked at. */
export const MAX_COUNTED = 20_000;
/** Held keys looked at for the oldest, over all listeners. */
const MAX_KEYS = 4_000;
export const SOON_SECONDS = 300;
/** A stream of messages that each have a short time is no reason to worry: one that has waited is. */
export const WAITED_SECONDS = 60;

@Injectable()
export class ObservationStore {
  constructor(private readonly database: Database) {}

  async observe(): Promise<readonly Observed[]> {
    const [, rows] = await this.database.inOneRoundTrip([
      [FORCE_INDEX_PLANS],
      [OBSERVE, [MAX_COUNTED, MAX_KEYS, SOON_SECONDS, WAITED_SECONDS]],
    ]);
    return (rows as (Omit<Observed, 'value'> & { value: unknown })[]).map((row) => ({
      ...row,
      value: Number(row.value),
    }));
  }
}
