import { Injectable } from '@nestjs/common';
import { Database, type Statement } from '../../database/database.ts';
import { Reads } from '../../database/reads.ts';
import type { ActivityCounts } from '../../telemetry/activity.ts';
import { EXTEND, GROUPS, LISTENERS, REMOVE, SPAN, TOTALS, WINDOW, WRITE } from './activity.sql.ts';

/** More would not fit on a screen, nor into a response. */
const MAX_NAMES = 200;

interface Written {
  readonly id: number;
  /** When the next slot is over. */
  readonly msToNext: number;
}

/** One row of the window; without a replica if nothing was written in it. */
export interface WindowRow extends Omit<ActivityCounts, 'listeners' | 'groups'> {
  readonly replica: string | null;
  readonly listeners: ActivityCounts['listeners'] | null;
  readonly groups: ActivityCounts['groups'] | null;
  /** Seconds since the end of the window. */
  readonly secondsSince: number;
}

export interface Series {
  readonly from: Date;
  readonly to: Date;
  readonly totals: readonly {
    readonly step: number;
    readonly accepted: number;
    readonly applied: number;
    readonly failed: number;
    readonly dead: number;
  }[];
  readonly listeners: readonly {
    readonly step: number;
    readonly name: string;
    readonly delivered: number;
    readonly failed: number;
    readonly durations: Readonly<Record<string, number>>;
  }[];
  readonly groups: readonly { readonly step: number; readonly name: string; readonly committed: number }[];
}

@Injectable()
export class ActivityStore {
  constructor(
    private readonly database: Database,
    private readonly reads: Reads,
  ) {}

  async write(replica: string, counts: ActivityCounts): Promise<Written> {
    const { accepted, applied, failed, dead, listeners, groups } = counts;
    const values = [replica, accepted, applied, failed, dead, jsonOf(listeners), jsonOf(groups)];
    const [row] = await this.database.query<Written>(WRITE, values);
    return row!;
  }

  /** Undefined: the row ends earlier, or retention has removed it. */
  async extend(id: number): Promise<Written | undefined> {
    const [row] = await this.database.query<Written>(EXTEND, [id]);
    return row;
  }

  async series(rangeSeconds: number, stepSeconds: number): Promise<Series> {
    const [span] = await this.reads.query<{ from: Date; to: Date }>(SPAN, [rangeSeconds]);
    const { from, to } = span!;
    const values = [from, to, stepSeconds];
    const [totals, listeners, groups] = await Promise.all([
      this.reads.query<Series['totals'][number]>(TOTALS, values),
      this.reads.query<Series['listeners'][number]>(LISTENERS, [...values, MAX_NAMES]),
      this.reads.query<Series['groups'][number]>(GROUPS, [...values, MAX_NAMES]),
    ]);
    return { from, to, totals, listeners, groups };
  }

  remove(maxRows: number): Promise<number> {
    return this.database.execute(REMOVE, [maxRows]);
  }
}

/** To be sent with other statements. It returns rows of the type `WindowRow`. */
export function windowOf(seconds: number): Statement {
  return [WINDOW, [seconds]];
}

function jsonOf(counts: object): string | null {
  return Object.keys(counts).length === 0 ? null : JSON.stringify(counts);
}
