import type { Tenure } from './tenure.ts';

interface Asker {
  /** Something was written meanwhile, nobody knows where. */
  somewhere: boolean;
}

/**
 * Lanes that were written to while somebody in this process had them, or was asking for lanes: whoever is told of the
 * write may be turned away. They are looked at again when they are released, and only they: a look costs as much as the
 * lease of a lane with work. What others write while another process has a lane, that one is told of too.
 */
export class Missed {
  private readonly held = new Set<number>();
  private readonly lanes = new Set<number>();
  private readonly askers = new Set<Asker>();

  /** Told of every write. */
  written(lane: number): void {
    if (this.askers.size > 0 || this.held.has(lane)) this.lanes.add(lane);
  }

  /** Of one of which nobody knows where. */
  writtenSomewhere(): void {
    for (const lane of this.held) this.lanes.add(lane);
    for (const asker of this.askers) asker.somewhere = true;
  }

  /** The lanes that `ask` leases are held from now on; it may have looked into them before the write. */
  async taking<Leased extends { readonly tenure: Tenure }>(
    ask: () => Promise<Leased | undefined>,
  ): Promise<Leased | undefined> {
    const asker = { somewhere: false };
    this.askers.add(asker);
    try {
      const leased = await ask();
      for (const lane of leased?.tenure.lanes ?? []) {
        this.held.add(lane);
        if (asker.somewhere) this.lanes.add(lane);
      }
      return leased;
    } finally {
      this.askers.delete(asker);
    }
  }

  /** Answers with those that were written to meanwhile. */
  released(lanes: Iterable<number>): number[] {
    return [...lanes].filter((lane) => {
      this.held.delete(lane);
      return this.lanes.delete(lane);
    });
  }
}
