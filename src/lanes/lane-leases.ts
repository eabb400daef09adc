import type { Database, Statement } from '../database/database.ts';
import type { Transaction } from '../database/transaction.ts';
import { FENCE, RELEASE, RENEW } from './lane-leases.sql.ts';

/** A lane, and the token that proves that it is held. */
export interface HeldToken {
  readonly lane: number;
  readonly token: string;
}

/** The life of a lease after it was taken, for both stages: fence, renew, release. */
export class LaneLeases {
  constructor(
    private readonly queue: string,
    private readonly database: Database,
    readonly leaseMs: number,
  ) {}

  /**
   * Locks the lanes until the transaction ends; returns those that another replica holds now. A lock, not an update:
   * nothing to vacuum after it, even while an old snapshot is open elsewhere.
   */
  async fence<Held extends HeldToken>(held: readonly Held[], tx: Transaction): Promise<Held[]> {
    if (held.length === 0) return [];
    const rows = await tx.query<HeldToken>(FENCE, this.pairs(held));
    const tokens = new Map(rows.map(({ lane, token }) => [lane, token]));
    return held.filter(({ lane, token }) => tokens.get(lane) !== token);
  }

  /** Returns those that another replica holds now. */
  async renew<Held extends HeldToken>(held: readonly Held[]): Promise<Held[]> {
    const rows = await this.database.query<{ lane: number }>(RENEW, [...this.pairs(held), this.leaseMs]);
    const renewed = new Set(rows.map(({ lane }) => lane));
    return held.filter(({ lane }) => !renewed.has(lane));
  }

  /** In a transaction that settles what was claimed of them: until it is committed, they are still held. */
  async release(held: readonly HeldToken[], tx: Transaction): Promise<void> {
    if (held.length > 0) await tx.execute(...this.releasing(held));
  }

  releasing(held: readonly HeldToken[]): Required<Statement> {
    return [RELEASE, this.pairs(held)];
  }

  private pairs(held: readonly HeldToken[]): [queue: string, lanes: number[], tokens: string[]] {
    return [this.queue, held.map(({ lane }) => lane), held.map(({ token }) => token)];
  }
}
