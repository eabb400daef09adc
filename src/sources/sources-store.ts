import { Injectable } from '@nestjs/common';
import type { FedMessage, FeedPosition } from '../brokers/feed.ts';
import { Database } from '../database/database.ts';
import { AuditLog } from '../http/audit/audit-log.ts';
import {
  COUNT_REFUSED,
  DEFINE,
  DELETE,
  DISCARD,
  LEASE,
  LIST,
  REFUSAL_BODY,
  REFUSALS,
  REFUSE,
  RELEASE,
  SET_STATE,
  STORED,
} from './sources.sql.ts';

/** `full`: as many refused messages are kept as may be, so it waits for an operator. */
export type SourceState = 'waiting' | 'running' | 'failing' | 'full';

export interface SourceRow {
  readonly name: string;
  readonly kind: string;
  readonly state: SourceState;
  readonly error: string | null;
  readonly since: Date;
  readonly replica: string | null;
  readonly accepted: number;
  readonly duplicates: number;
  readonly stored_at: Date | null;
  readonly refused: number;
}

export interface RefusalRow {
  readonly number: number;
  readonly place: string;
  readonly reason: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly at: Date;
  readonly size: number;
  readonly excerpt: Buffer;
}

/** Whose lease it is: a source is read by one replica at a time. */
export interface Lease {
  readonly name: string;
  readonly token: string;
}

@Injectable()
export class SourcesStore {
  constructor(
    private readonly database: Database,
    private readonly audit: AuditLog,
  ) {}

  async define(name: string, kind: string): Promise<void> {
    await this.database.execute(DEFINE, [name, kind]);
  }

  /** Undefined: another replica has it. */
  async lease(
    { name, token }: Lease,
    ms: number,
    replica: string,
  ): Promise<{ position: FeedPosition | null } | undefined> {
    const [row] = await this.database.query<{ position: FeedPosition | null }>(LEASE, [
      name,
      token,
      ms,
      replica,
    ]);
    return row;
  }

  async release({ name, token }: Lease): Promise<void> {
    await this.database.execute(RELEASE, [name, token]);
  }

  async stored(
    { name, token }: Lease,
    position: FeedPosition | undefined,
    counts: { readonly accepted: number; readonly duplicates: number },
  ): Promise<void> {
    const place = position ? JSON.stringify(position) : null;
    await this.database.execute(STORED, [name, token, place, counts.accepted, counts.duplicates]);
  }

  async setState({ name, token }: Lease, state: SourceState, error: string | null = null): Promise<void> {
    await this.database.execute(SET_STATE, [name, token, state, error]);
  }

  async refuse(name: string, { place, headers, body }: FedMessage, reason: string): Promise<void> {
    await this.database.execute(REFUSE, [name, place, reason, JSON.stringify(headers), body]);
  }

  /** Counted up to `max`. */
  async countRefused(name: string, max: number): Promise<number> {
    const [row] = await this.database.query<{ count: number }>(COUNT_REFUSED, [name, max]);
    return row!.count;
  }

  /** With its refused messages. False: a replica reads it. */
  delete(name: string, by: string): Promise<boolean> {
    return this.database.transaction(async (tx) => {
      if ((await tx.execute(DELETE, [name])) === 0) return false;
      await this.audit.record({ by, action: 'source.delete', target: name }, tx);
      return true;
    });
  }

  list(name?: string): Promise<SourceRow[]> {
    return this.database.query(LIST, [name ?? null]);
  }

  refusals(name: string, before: number, max: number, excerptBytes: number): Promise<RefusalRow[]> {
    return this.database.query(REFUSALS, [name, before, max, excerptBytes]);
  }

  async bodyOf(name: string, number: number): Promise<Buffer | undefined> {
    const [row] = await this.database.query<{ body: Buffer }>(REFUSAL_BODY, [name, number]);
    return row?.body;
  }

  discard(name: string, numbers: readonly number[] | undefined, by: string, reason: string): Promise<number> {
    return this.database.transaction(async (tx) => {
      const count = await tx.execute(DISCARD, [name, numbers ?? null]);
      await this.audit.record({ by, action: 'source.discard', target: name, reason, count }, tx);
      return count;
    });
  }
}
