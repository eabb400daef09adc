/** So many at a time; the others wait in line. */
export class Turns {
  private readonly line: (() => void)[] = [];

  constructor(private free: number) {}

  get waiting(): number {
    return this.line.length;
  }

  take(): Promise<void> {
    if (this.free <= 0) return new Promise((resolve) => this.line.push(resolve));
    this.free -= 1;
    return Promise.resolve();
  }

  /** To the next in line, if there is one. */
  end(): void {
    this.free += 1;
    if (this.free > 0) this.next();
  }

  /** Nobody is to wait any more. */
  letAll(): void {
    while (this.line.length > 0) this.next();
  }

  private next(): void {
    const next = this.line.shift();
    if (!next) return;
    this.free -= 1;
    next();
  }
}
