/**
 * Items that are handled in batches, one batch at a time: those that are added while a batch is in flight share the next
 * one. There is no timer, so a single item never waits, and under load the batches grow.
 */
export class BatchQueue<Item> {
  items: Item[] = [];
  private draining: Promise<void> | undefined;

  /** `handleBatch` takes the items of the next batch off `items`. It never throws. */
  constructor(private readonly handleBatch: () => Promise<void>) {}

  add(item: Item): void {
    this.items.push(item);
    this.draining ??= this.drain();
  }

  /** Resolves when the queue is empty and no batch is in flight. */
  async drained(): Promise<void> {
    await this.draining;
  }

  private async drain(): Promise<void> {
    // Items that are added in the same turn of the event loop share a batch.
    await new Promise(setImmediate);
    while (this.items.length > 0) await this.handleBatch();
    this.draining = undefined;
  }
}
