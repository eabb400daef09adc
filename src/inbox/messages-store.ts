import { Injectable } from '@nestjs/common';
import { Reads } from '../database/reads.ts';
import type { Sized } from '../http/page-bytes.ts';
import { laneOf } from '../lanes/lane-of.ts';
import type { Ruling } from '../outbox/fan-out/deliveries.openapi.ts';
import {
  FIND_MESSAGES,
  findByPosition,
  findHeld,
  findHeldOfKey,
  findProcessing,
  findReady,
  listMessages,
  MAX_ROWS_READ,
} from './messages.sql.ts';
import { INBOX_LANES } from './new-message.ts';

export const STATUSES = [
  'pending',
  'scheduled',
  'processing',
  'held',
  'finished',
  'dead',
  'expired',
  'superseded',
  'discarded',
] as const;
export type Status = (typeof STATUSES)[number];

/** The condition of a partial index by position that contains all rows of the status. */
const INDEXED: Partial<Record<Status, string>> = {
  scheduled: `settled_at IS NULL AND waits = 'due'`,
  dead: 'fingerprint IS NOT NULL',
  expired: 'lapsed_at IS NOT NULL',
  superseded: 'lapsed_at IS NOT NULL',
  discarded: 'lapsed_at IS NOT NULL',
};

const ALL_LANES = Array.from({ length: INBOX_LANES }, (_, lane) => lane);
/** Greater than every position. */
const NO_POSITION = '9223372036854775807';

export interface MessageRow {
  readonly position: number;
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly key: string;
  readonly status: Status;
  readonly attempt: number;
  readonly error: string | null;
  readonly headers: Record<string, string> | null;
  readonly occurred_at: Date | null;
  readonly received_at: Date;
  readonly due_at: Date | null;
  readonly expires_at: Date | null;
  readonly settled_at: Date | null;
  readonly superseded_by: string | null;
  readonly ruling: Ruling | null;
  readonly producer: string | null;
  readonly sequence: number | null;
  /** It was read from history. */
  readonly archived?: true;
}

export interface FoundMessage extends MessageRow {
  /** JSON text; null if it was not asked for. */
  readonly payload: string | null;
  readonly payload_bytes: number;
}

export interface MessageFilter {
  readonly status: Status | undefined;
  readonly type: string | undefined;
  readonly key: string | undefined;
  readonly source: string | undefined;
  readonly since: string | undefined;
  readonly until: string | undefined;
  /** The fingerprint of an error, or its beginning. */
  readonly error: string | undefined;
}

export const NO_FILTER: MessageFilter = {
  status: undefined,
  type: undefined,
  key: undefined,
  source: undefined,
  since: undefined,
  until: undefined,
  error: undefined,
};

@Injectable()
export class MessagesStore {
  constructor(private readonly reads: Reads) {}

  /** If several sources used the id, only the row of `own` has its payload and the size of it. */
  find(
    id: string,
    { source, own, withPayload }: { source: string | undefined; own: string; withPayload: boolean },
  ): Promise<Omit<FoundMessage, 'archived'>[]> {
    return this.reads.query(FIND_MESSAGES, [id, source ?? null, withPayload, own]);
  }

  /** The same for messages of any of several statuses, each found in its own way. */
  async listSeveral(
    statuses: readonly Status[],
    filter: MessageFilter,
    beforePosition: number | undefined,
    limit: number,
  ): Promise<{ rows: MessageRow[]; edge: number | undefined }> {
    const lists = await Promise.all(
      statuses.map((status) => this.list({ ...filter, status }, beforePosition, limit)),
    );
    // Below it, messages of some status may be missing.
    const completeDownTo = Math.max(0, ...lists.map((list) => completeDownToOf(list, limit)));
    const rows = lists
      .flatMap((list) => list.rows)
      .filter(({ position }) => position >= completeDownTo)
      .sort((a, b) => b.position - a.position);
    return { rows: rows.slice(0, limit), edge: completeDownTo || undefined };
  }

  /** `edge`: where the next page continues if the rows that a page may read had fewer matches than requested. */
  async list(
    filter: MessageFilter,
    beforePosition: number | undefined,
    limit: number,
  ): Promise<{ rows: MessageRow[]; edge: number | undefined }> {
    const values: unknown[] = [limit];
    const value = (one: unknown) => `$${values.push(one)}`;
    const search = searchFor(filter, value(beforePosition ?? NO_POSITION), limit, value);
    const conditions: string[] = [];
    if (filter.status) conditions.push(`inbox.status = ${value(filter.status)}`);
    if (filter.type !== undefined) conditions.push(`inbox.type = ${value(filter.type)}`);
    if (filter.key !== undefined) conditions.push(`inbox.key = ${value(filter.key)}`);
    if (filter.source !== undefined) conditions.push(`inbox.source = ${value(filter.source)}`);
    if (filter.since) conditions.push(`inbox.received_at >= ${value(filter.since)}`);
    if (filter.until) conditions.push(`inbox.received_at < ${value(filter.until)}`);
    if (filter.error !== undefined) conditions.push(isError(value(filter.error)));
    const found = await this.reads.queryWithIndexPlans<MessageRow & { edge: number | null }>(
      listMessages(search, conditions),
      values,
    );
    return { rows: found.filter(({ position }) => position !== null), edge: found[0]!.edge ?? undefined };
  }
}

function completeDownToOf(
  { rows, edge }: { readonly rows: readonly MessageRow[]; readonly edge: number | undefined },
  limit: number,
): number {
  const last = rows.at(-1);
  const isCut = last !== undefined && (rows.length >= limit || (last as Partial<Sized>).fits === false);
  return Math.max(edge ?? 0, isCut ? last.position : 0);
}

function isError(parameter: string): string {
  return `(inbox.fingerprint = ${parameter}::text OR starts_with(inbox.error, ${parameter}))`;
}

/** The cheapest way to find the rows of a status. Waiting rows may be few among all stored rows, or all of them. */
function searchFor(
  { status, type, key, source, since, until, error }: MessageFilter,
  below: string,
  limit: number,
  value: (one: unknown) => string,
): string {
  const lane = key === undefined ? undefined : laneOf(key, INBOX_LANES);
  switch (status) {
    case 'pending': {
      const lanes = lane === undefined ? ALL_LANES : [lane];
      const max = Math.max(limit, Math.ceil(MAX_ROWS_READ / lanes.length));
      return findReady({ below, lanes: value(lanes), max: value(max) });
    }
    case 'processing':
      return findProcessing({ below });
    case 'held':
      return key === undefined
        ? findHeld({ below, max: value(limit) })
        : findHeldOfKey({ below, lane: value(lane), key: value(key) });
    default: {
      const which = (status && INDEXED[status]) ?? 'true';
      const ofKey = which === 'true' && key !== undefined ? value(key) : undefined;
      const others = [type, source, until, error];
      const all = !status && !since && others.every((one) => one === undefined);
      const max = value(all ? limit : MAX_ROWS_READ);
      return findByPosition(which, { below, max, key: ofKey, since: since && value(since) });
    }
  }
}
