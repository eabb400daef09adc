import { Injectable } from '@nestjs/common';
import { Reads } from '../database/reads.ts';
import { FIND_MESSAGES, listMessages } from './messages.sql.ts';

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

const OPEN: readonly Status[] = ['pending', 'scheduled', 'processing', 'held'];
const LAPSED: readonly Status[] = ['dead', 'expired', 'superseded', 'discarded'];

/** What an operator decided about a dead letter. */
export interface Ruling {
  readonly kind: 'revive' | 'discard';
  readonly by: string;
  readonly at: string;
  readonly reason: string | null;
}

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
}

export interface MessageFilter {
  readonly status: Status | undefined;
  readonly type: string | undefined;
  readonly key: string | undefined;
  readonly since: string | undefined;
}

@Injectable()
export class MessagesStore {
  constructor(private readonly reads: Reads) {}

  find(id: string, source: string | undefined): Promise<(MessageRow & { payload: string })[]> {
    return this.reads.query(FIND_MESSAGES, [id, source ?? null]);
  }

  list(filter: MessageFilter, beforePosition: number | undefined, limit: number): Promise<MessageRow[]> {
    const parameters: unknown[] = [limit];
    const conditions: string[] = [];
    const add = (condition: string, value: unknown) => {
      if (value === undefined) return;
      parameters.push(value);
      conditions.push(`${condition} $${parameters.length}`);
    };
    add('inbox.status =', filter.status);
    add('inbox.type =', filter.type);
    add('inbox.key =', filter.key);
    add('inbox.received_at >=', filter.since);
    add('inbox.position <', beforePosition);
    // Says what the status implies, so that the small partial indexes can serve.
    if (filter.status && OPEN.includes(filter.status)) conditions.push('inbox.settled_at IS NULL');
    if (filter.status && LAPSED.includes(filter.status)) conditions.push('inbox.lapsed_at IS NOT NULL');
    return this.reads.query(listMessages(conditions), parameters);
  }
}
