import { isRefusingEverybody } from '../database/faults.ts';

/** Lanes to give back: all of a token where it is not known which. */
export interface Owed {
  readonly token: string;
  readonly lanes: readonly number[] | undefined;
  readonly blamed: boolean;
}

/** What could not be given back because the database was away, or may be ours without our knowing. */
export class OwedLanes {
  private owed: Owed[] = [];

  constructor(private readonly giveBack: (owed: Owed) => Promise<void>) {}

  /** They are given up because of an error: blamed for it, unless it is surely nobody's fault. */
  owe(token: string, error: unknown, lanes?: readonly number[]): void {
    this.owed.push({ token, lanes, blamed: !isRefusingEverybody(error) });
  }

  /** What takes lanes, or has just taken them. If it fails, nobody is there to work on them. */
  async orOwe<Taken>(token: string, take: () => Promise<Taken>): Promise<Taken> {
    try {
      return await take();
    } catch (error) {
      // The commit may have happened: then these lanes are ours, and nobody knows.
      this.owe(token, error);
      throw error;
    }
  }

  /** Rejects where the database is still away; the rest stays owed. */
  async giveBackAll(): Promise<void> {
    while (this.owed.length > 0) {
      const first = this.owed[0]!;
      await this.giveBack(first);
      this.owed = this.owed.filter((one) => one !== first);
    }
  }
}
