import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import type { AttemptView } from '../../outbox/fan-out/deliveries.openapi.ts';
import { deadLettersOf, stagesOf } from './dead-letter-conditions.ts';
import type { DeadLetterFilter, Stage } from './dead-letter-filter.ts';
import { countDeadLetters, EXISTS, FIND, groupDeadLetters, listDeadLetters } from './dead-letters.sql.ts';

export interface DeadLetterRow {
  readonly stage: Stage;
  /** Of the message, of the delivery, or of the rejection. */
  readonly id: string;
  readonly listener: string | null;
  readonly group: string | null;
  /** Where a group read it. */
  readonly origin: {
    readonly topic: string | null;
    readonly partition: number;
    readonly offset: number;
  } | null;
  readonly position: number;
  readonly lane: number;
  /** What keeps order: the message's key, or the delivery's own id. */
  readonly order_key: string;
  readonly status: string;
  readonly attempt: number;
  readonly error: string | null;
  readonly fingerprint: string | null;
  readonly lapsed_at: Date | null;
  readonly micros: number | null;
  readonly message: string;
  readonly source: string;
  readonly type: string;
  readonly key: string;
  readonly occurred_at: Date | null;
  readonly received_at: Date;
  readonly waiting: number;
}

export interface FoundRow extends DeadLetterRow {
  /** JSON text. Missing unless this is the only one of the found that is dead. */
  readonly payload: string;
  readonly headers: Readonly<Record<string, string>> | null;
  readonly attempts: readonly AttemptView[];
  readonly attempts_total: number;
}

export interface GroupRow {
  readonly stage: Stage;
  readonly listener: string | null;
  readonly group: string | null;
  readonly fingerprint: string;
  readonly count: number;
  readonly first: Date;
  readonly last: Date;
  readonly example: {
    readonly id: string;
    readonly type: string;
    readonly key: string;
    readonly error: string | null;
  };
}

export type DeadLetterCursor = readonly [micros: number, stage: Stage, position: number];

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

@Injectable()
export class DeadLettersStore {
  constructor(private readonly database: Database) {}

  list(
    filter: DeadLetterFilter,
    after: DeadLetterCursor | undefined,
    limit: number,
  ): Promise<DeadLetterRow[]> {
    const values: unknown[] = [limit, ...(after ?? [null, null, null])];
    return this.query(listDeadLetters(partsOf(filter, values)), values);
  }

  groups(filter: DeadLetterFilter, limit: number): Promise<GroupRow[]> {
    const values: unknown[] = [limit];
    return this.query(groupDeadLetters(partsOf(filter, values)), values);
  }

  async count(filter: DeadLetterFilter): Promise<number> {
    let count = 0;
    for (const stage of stagesOf(filter)) {
      const values: unknown[] = [];
      const sql = countDeadLetters(deadLettersOf(stage, filter, values));
      const [row] = await this.query<{ count: number }>(sql, values);
      count += row!.count;
    }
    return count;
  }

  find(id: string, stage: Stage | undefined, source: string | undefined): Promise<FoundRow[]> {
    const uuid = UUID.test(id) ? id : null;
    return this.query(FIND, [id, uuid, stage ?? null, source ?? null]);
  }

  async exists(what: 'listener' | 'group', name: string): Promise<boolean> {
    return (await this.query(EXISTS[what], [name])).length > 0;
  }

  private query<Row>(sql: string, values: readonly unknown[]): Promise<Row[]> {
    return this.database.transaction((tx) => {
      void tx.query(FORCE_INDEX_PLANS);
      return tx.query<Row>(sql, values);
    });
  }
}

function partsOf(filter: DeadLetterFilter, values: unknown[]) {
  return stagesOf(filter).map((stage) => ({ stage, from: deadLettersOf(stage, filter, values) }));
}
