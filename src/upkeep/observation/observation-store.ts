import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { STRAIGHT_PLANS } from '../../database/straight-plans.ts';
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
export const MOST_COUNTED = 20_000;
/** Held keys looked at for the oldest, over all listeners. */
const MOST_KEYS = 4_000;
export const SOON_SECONDS = 300;
/** A stream of messages that each have a short time is no reason to worry: one that has waited is. */
export const WAITED_SECONDS = 60;

@Injectable()
export class ObservationStore {
  constructor(private readonly database: Database) {}

  async observe(): Promise<readonly Observed[]> {
    const [, rows] = await this.database.together([
      [STRAIGHT_PLANS],
      [OBSERVE, [MOST_COUNTED, MOST_KEYS, SOON_SECONDS, WAITED_SECONDS]],
    ]);
    return (rows as (Omit<Observed, 'value'> & { value: unknown })[]).map((row) => ({
      ...row,
      value: Number(row.value),
    }));
  }
}
