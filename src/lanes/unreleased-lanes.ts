import { isServerRefusing } from '../database/faults.ts';

/** Lanes to give back: all of a token where it is not known which. */
export interface Unreleased {
  readonly token: string;
  readonly lanes: readonly number[] | undefined;
  readonly countsAsCrash: boolean;
}

/** What could not be given back because the database was away, or may be ours without our knowing. */
export class UnreleasedLanes {
  private unreleased: Unreleased[] = [];

  constructor(private readonly giveBack: (owed: Unreleased) => Promise<void>) {}

  /** They are given up because of an error: blamed for it, unless it is surely nobody's fault. */
  add(token: string, error: unknown, lanes?: readonly number[]): void {
    this.unreleased.push({ token, lanes, countsAsCrash: !isServerRefusing(error) });
  }

  /** What takes lanes, or has just taken them. If it fails, nobody is there to work on them. */
  async addOnFailure<Taken>(token: string, take: () => Promise<Taken>): Promise<Taken> {
    try {
      return await take();
    } catch (error) {
      // The commit may have happened: then these lanes are ours, and nobody knows.
      this.add(token, error);
      throw error;
    }
  }

  /** Rejects where the database is still away; the rest stays owed. */
  async giveBackAll(): Promise<void> {
    while (this.unreleased.length > 0) {
      const first = this.unreleased[0]!;
      await this.giveBack(first);
      this.unreleased = this.unreleased.filter((one) => one !== first);
    }
  }
}
