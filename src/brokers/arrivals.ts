/** What has arrived and was not taken yet, for one reader. */
export class Arrivals<T> {
  private items: T[] = [];
  private ended: Error | undefined;
  private wake: (() => void) | undefined;

  add(item: T): void {
    this.items.push(item);
    this.wake?.();
  }

  /** Nothing arrives any more; what is there is not taken any more, either. */
  end(error: Error): void {
    this.ended ??= error;
    this.wake?.();
  }

  /** Everything that is there, once there is something. */
  async take(): Promise<readonly T[]> {
    while (this.items.length === 0 && !this.ended)
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    if (this.ended) throw this.ended;
    return this.items.splice(0);
  }
}
