import { Injectable } from '@nestjs/common';
import { isDatabaseAway } from '../database/errors.ts';

/** A statement that fails now and then, while others succeed, is no outage. */
const MIN_OUTAGE_MS = 500;

/**
 * For how long this replica has been able to store signs of life. A member that could not be heard is not silent: after an
 * outage of the database, and after the start of the replica, it has a whole session to be heard again.
 */
@Injectable()
export class DatabaseContact {
  private sinceMs = performance.now();
  private failingSinceMs: number | undefined;

  /** 0: the database is away, or was when it was last tried. */
  get forMs(): number {
    return this.isOutage() ? 0 : performance.now() - this.sinceMs;
  }

  /** Runs statements of groups, and notes whether the database was there. */
  async during<Result>(work: () => Promise<Result>): Promise<Result> {
    const startedMs = performance.now();
    try {
      const result = await work();
      if (this.isOutage()) this.sinceMs = performance.now();
      this.failingSinceMs = undefined;
      return result;
    } catch (error) {
      if (isDatabaseAway(error)) this.failingSinceMs ??= startedMs;
      throw error;
    }
  }

  private isOutage(): boolean {
    return this.failingSinceMs !== undefined && performance.now() - this.failingSinceMs >= MIN_OUTAGE_MS;
  }
}
