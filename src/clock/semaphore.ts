/** Lets a fixed number of callers in at a time; the others wait in a first-in, first-out queue. */
export class Semaphore {
  private readonly queue: (() => void)[] = [];

  constructor(private free: number) {}

  get waiting(): number {
    return this.queue.length;
  }

  acquire(): Promise<void> {
    if (this.free <= 0) return new Promise((resolve) => this.queue.push(resolve));
    this.free -= 1;
    return Promise.resolve();
  }

  /** Lets the next waiting caller in, if there is one. */
  release(): void {
    this.free += 1;
    if (this.free > 0) this.next();
  }

  /** Lets every waiting caller in, beyond the limit; used on shutdown. */
  releaseAll(): void {
    while (this.queue.length > 0) this.next();
  }

  private next(): void {
    const next = this.queue.shift();
    if (!next) return;
    this.free -= 1;
    next();
  }
}
