import { Injectable } from '@nestjs/common';
import { Database } from '../database/database.ts';
import type { Transaction } from '../database/transaction.ts';
import { type ClaimedMessage, inParts, withPayloads } from '../inbox/inbox-queue.ts';
import { ANY_PLANS, COUNT_FINISHED, INDEX_PLANS, LANES_BEHIND, NEXT_OF_LANES } from './lane-source.sql.ts';
import type { LaneCursor } from './rebuild.ts';

/** A finished message, and whether a denormalizer of the read model handles it. */
export interface ReplayMessage extends ClaimedMessage, LaneCursor {
  readonly wanted: boolean;
}

type Reader = Database | Transaction;

/** Finished messages in the order in which they were applied, by lane. */
@Injectable()
export class LaneSource {
  constructor(private readonly database: Database) {}

  behind(rebuild: number, on: Reader = this.database): Promise<LaneCursor[]> {
    return byIndex(on, LANES_BEHIND, [rebuild]);
  }

  async total(): Promise<number> {
    const [row] = await this.database.query<{ total: number }>(COUNT_FINISHED);
    return row!.total;
  }

  /** The next messages after these places; no more than fit into memory, so fewer than `perLane` does not mean the end. */
  async next(
    after: readonly LaneCursor[],
    perLane: number,
    types: readonly string[],
    on: Reader = this.database,
  ): Promise<ReplayMessage[]> {
    const rows = await byIndex<ReplayMessage>(on, NEXT_OF_LANES, [
      after.map(({ lane }) => lane),
      after.map(({ applied }) => applied),
      after.map(({ position }) => position),
      perLane,
      types,
    ]);
    const [first = []] = inParts(rows) as ReplayMessage[][];
    const missing = first.filter(({ wanted, payload }) => wanted && payload === '');
    if (missing.length === 0) return first;
    const loaded = new Map((await withPayloads(missing, on)).map((row) => [row.position, row.payload]));
    return first.map((row) => ({ ...row, payload: loaded.get(row.position) ?? row.payload }));
  }
}

/** Every lane is searched by the index, whatever the statistics are: to scan the table for each would take minutes. */
async function byIndex<Row>(on: Reader, sql: string, values: readonly unknown[]): Promise<Row[]> {
  if (on instanceof Database) {
    const [, rows] = await on.inOneRoundTrip([[INDEX_PLANS], [sql, values]]);
    return rows as Row[];
  }
  void on.query(INDEX_PLANS);
  const rows = on.query<Row>(sql, values);
  // The denormalizers that follow in this transaction are planned as always.
  void on.query(ANY_PLANS);
  return rows;
}
