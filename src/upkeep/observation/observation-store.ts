import { Injectable } from '@nestjs/common';
import { Database, type Statement } from '../../database/database.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { OBSERVE } from './observation.sql.ts';
import { OBSERVE_GROUPS } from './observation-groups.sql.ts';

/** One value of a metric, as read from the database. */
export interface Observed {
  readonly name: string;
  readonly stage: string | null;
  readonly listener: string | null;
  readonly group: string | null;
  readonly topic: string | null;
  /** A status, a reason, a mark or the state of a listener, depending on the metric. */
  readonly kind: string | null;
  readonly value: number;
}

/** Max rows counted of one kind over all listeners; further rows are not read. */
export const MAX_COUNTED = 20_000;
/** Max held keys scanned for the oldest row, over all listeners. */
const MAX_KEYS = 4_000;
export const SOON_SECONDS = 300;
/** A stream of messages with short expiry is normal; a message that has waited this long and expires soon is not. */
export const WAITED_SECONDS = 60;

/** To be sent after FORCE_INDEX_PLANS, perhaps with other statements; `observedOf()` reads what they return. */
export const OBSERVATION: readonly Statement[] = [
  [OBSERVE, [MAX_COUNTED, MAX_KEYS, SOON_SECONDS, WAITED_SECONDS]],
  [OBSERVE_GROUPS, [MAX_COUNTED]],
];

@Injectable()
export class ObservationStore {
  constructor(private readonly database: Database) {}

  async observe(): Promise<readonly Observed[]> {
    const [, ...rows] = await this.database.inOneRoundTrip([[FORCE_INDEX_PLANS], ...OBSERVATION]);
    return observedOf(rows);
  }
}

/** The rows of each statement of OBSERVATION. */
export function observedOf([rows, ofGroups]: readonly unknown[][]): readonly Observed[] {
  return [
    ...(rows as Omit<Observed, 'group' | 'topic'>[]).map((row) => ({
      ...row,
      group: null,
      topic: null,
      value: Number(row.value),
    })),
    ...(ofGroups as Pick<Observed, 'name' | 'group' | 'topic' | 'value'>[]).map((row) => ({
      ...row,
      stage: row.name === 'dead_letters' ? 'group' : null,
      listener: null,
      kind: null,
      value: Number(row.value),
    })),
  ];
}
