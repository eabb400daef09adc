/** Collecting takes milliseconds in which nothing else runs, so scrapes share what is collected once in this time. */
const FRESH_MS = 1_000;

interface Collected {
  readonly at: number;
  readonly text: Promise<Buffer>;
}

/** The metrics as text for Prometheus, at most a second old; concurrent scrapes get the same bytes. */
export class FreshText {
  private last: Collected | undefined;

  constructor(private readonly collect: () => Promise<string>) {}

  get(): Promise<Buffer> {
    if (this.last && performance.now() - this.last.at < FRESH_MS) return this.last.text;
    const collected = { at: performance.now(), text: this.collect().then(Buffer.from) };
    this.last = collected;
    // A failed collection is not cached.
    collected.text.catch(() => {
      if (this.last === collected) this.last = undefined;
    });
    return collected.text;
  }
}
