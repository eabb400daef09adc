import type { Database, Statement } from '../database/database.ts';
import type { Transaction } from '../database/transaction.ts';
import { FENCE, RELEASE, RENEW } from './lane-leases.sql.ts';

/** A lane, and the token that proves who holds it. */
export interface HeldToken {
  readonly lane: number;
  readonly token: string;
}

/** What happens to a lease after it was taken, for both stages: fence, renew, release. */
export class LaneLeases {
  constructor(
    private readonly queue: string,
    private readonly database: Database,
    readonly leaseMs: number,
  ) {}

  /**
   * Locks the lanes until the transaction ends; returns those that another replica holds now. A lock, not an update:
   * it leaves nothing to vacuum, even while an old snapshot is open elsewhere.
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

  /** In the transaction that settles the rows claimed from these lanes: until it commits, the lanes are still held. */
  async release(held: readonly HeldToken[], tx: Transaction): Promise<void> {
    if (held.length > 0) await tx.execute(...this.releaseStatement(held));
  }

  releaseStatement(held: readonly HeldToken[]): Required<Statement> {
    return [RELEASE, this.pairs(held)];
  }

  private pairs(held: readonly HeldToken[]): [queue: string, lanes: number[], tokens: string[]] {
    return [this.queue, held.map(({ lane }) => lane), held.map(({ token }) => token)];
  }
}
