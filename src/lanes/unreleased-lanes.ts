import type { Database } from '../database/database.ts';
import { isServerRefusing } from '../database/errors.ts';
import { COUNTED_AFTER, NEVER_COUNTED } from './lease.ts';

interface UnreleasedLease {
  readonly token: string;
  /** Undefined: all lanes of the token, because it is not known which it has. */
  readonly lanes: readonly number[] | undefined;
  readonly countsAsCrash: boolean;
}

/**
 * Lanes that this replica owns, or may own without knowing it, and does not work on: their release failed because the
 * database was unreachable, or the result of the COMMIT that leased them never arrived. They are given back before the next lease.
 */
export class UnreleasedLanes {
  private unreleased: UnreleasedLease[] = [];

  constructor(
    private readonly queue: string,
    private readonly database: Database,
    private readonly sql: { readonly giveBack: string },
    private readonly freeSql: Readonly<Record<'settings' | 'countCrash' | 'free', string>>,
  ) {}

  /** The lanes are given up because of this error. It counts as a crash of theirs unless no message can have caused it. */
  add(token: string, error: unknown, lanes?: readonly number[]): void {
    this.unreleased.push({ token, lanes, countsAsCrash: !isServerRefusing(error) });
  }

  /** Runs what leases lanes, or claims from lanes just leased. If it fails, no caller knows of the lanes. */
  async addOnFailure<Taken>(token: string, take: () => Promise<Taken>): Promise<Taken> {
    try {
      return await take();
    } catch (error) {
      // The commit may have happened: then this replica owns the lanes without knowing it.
      this.add(token, error);
      throw error;
    }
  }

  /** Rejects while the database is unreachable; what was not given back stays listed. */
  async giveBackAll(): Promise<void> {
    while (this.unreleased.length > 0) {
      const first = this.unreleased[0]!;
      await this.giveBack(first);
      this.unreleased = this.unreleased.filter((one) => one !== first);
    }
  }

  /** The claimed rows of these lanes become ready or held again. */
  async giveBack({ token, lanes, countsAsCrash }: UnreleasedLease): Promise<void> {
    const values = [this.queue, token, lanes ?? null];
    const countedAfter = countsAsCrash ? COUNTED_AFTER : NEVER_COUNTED;
    await this.database.transaction(async (tx) => {
      // All are awaited, so that the error thrown is the first one and not one that followed from it.
      await Promise.all([
        tx.query(this.freeSql.settings),
        countsAsCrash ? tx.execute(this.freeSql.countCrash, values) : undefined,
        tx.query(this.sql.giveBack, [this.queue, token, countedAfter, lanes ?? null]),
        tx.execute(this.freeSql.free, values),
      ]);
    });
  }
}
