/**
 * Lanes that were written to while somebody in this process had them, or was asking for lanes: whoever is told of the
 * write may be turned away. They are looked at again when they are released, and only they: a look costs as much as the
 * lease of a lane with work. What others write while another process has a lane, that one is told of too.
 */
export class Missed {
  private readonly held = new Set<number>();
  private readonly lanes = new Set<number>();
  private asking = 0;

  /** Told of every write. */
  written(lane: number): void {
    if (this.asking > 0 || this.held.has(lane)) this.lanes.add(lane);
  }

  async whileAsking<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    this.asking += 1;
    try {
      return await ask();
    } finally {
      this.asking -= 1;
    }
  }

  taken(lanes: Iterable<number>): void {
    for (const lane of lanes) this.held.add(lane);
  }

  /** Answers with those that were written to meanwhile. */
  released(lanes: Iterable<number>): number[] {
    return [...lanes].filter((lane) => {
      this.held.delete(lane);
      return this.lanes.delete(lane);
    });
  }
}
