import { Injectable } from '@nestjs/common';
import { Database } from '../database/database.ts';
import { groupBy } from '../database/group-by.ts';
import type { Transaction } from '../database/transaction.ts';
import { comparePlaces, type Place } from '../history/history-message.ts';
import { type ClaimedMessage, inParts, withPayloads } from '../inbox/inbox-queue.ts';
import {
  ANY_PLANS,
  COUNT_BEHIND,
  COUNT_FINISHED,
  INDEX_PLANS,
  IS_NEXT,
  LANES_BEHIND,
  NEXT_OF_LANES,
} from './lane-source.sql.ts';
import type { LaneCursor } from './rebuild.ts';

/** A finished message, and whether a denormalizer of the read model handles it. */
export interface ReplayMessage extends ClaimedMessage, LaneCursor {
  readonly wanted: boolean;
}

type Reader = Database | Transaction;

/** Few columns, and no time as text: a third of what reading costs. */
interface FoundRow extends ReplayedFields {
  readonly occurred_at: Date | null;
  readonly receivedMs: number;
}

/** Of the inbox, beside what is read of history. */
const PER_LANE = 256;

/** Finished messages in the order in which they were applied, by lane. */
@Injectable()
export class LaneSource {
  constructor(private readonly database: Database) {}

  behind(rebuild: number, on: Reader = this.database): Promise<LaneCursor[]> {
    return byIndex(on, LANES_BEHIND, [rebuild]);
  }

  /** How many messages, up to the max. */
  async countBehind(rebuild: number, max: number): Promise<number> {
    const [row] = await byIndex<{ behind: number }>(this.database, COUNT_BEHIND, [rebuild, max]);
    return row!.behind;
  }

  /** Whether a message of these types is among the next ones, up to a max per lane. */
  async isNext(rebuild: number, types: readonly string[], maxPerLane: number): Promise<boolean> {
    if (types.length === 0) return false;
    const [row] = await byIndex<{ found: boolean }>(this.database, IS_NEXT, [rebuild, types, maxPerLane]);
    return row!.found;
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
    return loaded(await this.find(after, perLane, types, undefined, on), on);
  }

  /**
   * Those up to a place, in the order in which they were applied. `completeTo`: only up to there all are in it, because there
   * are too many of them.
   */
  async until(
    end: Place,
    after: readonly LaneCursor[],
    types: readonly string[],
  ): Promise<{ readonly rows: readonly ReplayMessage[]; readonly completeTo: Place | undefined }> {
    const found = (await this.find(after, PER_LANE, types, end)).sort(comparePlaces);
    const rows = await loaded(found, this.database);
    const cut = rows.length < found.length ? [rows.at(-1)!] : [];
    const full = groupBy(found, ({ lane }) => lane).filter(({ length }) => length === PER_LANE);
    const [completeTo] = [...cut, ...full.map((ofLane) => ofLane.at(-1)!)].sort(comparePlaces);
    return { rows, completeTo };
  }

  private async find(
    after: readonly LaneCursor[],
    perLane: number,
    types: readonly string[],
    end?: Place,
    on: Reader = this.database,
  ): Promise<ReplayMessage[]> {
    const rows = await byIndex<FoundRow>(on, NEXT_OF_LANES, [
      after.map(({ lane }) => lane),
      after.map(({ applied }) => applied),
      after.map(({ position }) => position),
      perLane,
      types,
      end?.applied ?? null,
      end?.position ?? null,
    ]);
    return rows.map((row) => replayMessage(row, row.receivedMs, row.occurred_at));
  }
}

/** What a row of the inbox and a message of history have in common. */
export type ReplayedFields = LaneCursor &
  Pick<ReplayMessage, 'id' | 'source' | 'type' | 'key' | 'payload' | 'headers'> &
  Partial<Pick<ReplayMessage, 'attempt' | 'bytes' | 'wanted'>>;

/** Member by member: to copy the rest of an object with a spread takes 5 µs per message. */
export function replayMessage(
  from: ReplayedFields,
  receivedMs: number,
  occurredAt: Date | null,
): ReplayMessage {
  return {
    lane: from.lane,
    applied: from.applied,
    position: from.position,
    place: '',
    id: from.id,
    source: from.source,
    type: from.type,
    key: from.key,
    keyless: false,
    attempt: from.attempt ?? 1,
    payload: from.payload,
    bytes: from.bytes ?? 0,
    headers: from.headers,
    occurred_at: occurredAt,
    received_at: new Date(receivedMs),
    expires_at: null,
    expired: false,
    wanted: from.wanted ?? true,
  };
}

/** The first of them, with their payloads: as many as fit into memory. */
async function loaded(rows: readonly ReplayMessage[], on: Reader): Promise<ReplayMessage[]> {
  const [first = []] = inParts(rows) as ReplayMessage[][];
  const missing = first.filter(({ wanted, payload }) => wanted && payload === '');
  if (missing.length === 0) return first;
  const found = new Map((await withPayloads(missing, on)).map((row) => [row.position, row.payload]));
  return first.map((row) => ({ ...row, payload: found.get(row.position) ?? row.payload }));
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
