import type { JsonLexer } from './json-lexer.ts';

/** Up to this many keys, comparing hashes in a list is cheaper than a Set. */
const LISTED = 32;

/**
 * The keys of the currently open objects, by level, to find duplicates. An object starts with a list of hashes, in
 * arrays that are reused from scan to scan; when it outgrows the list it moves to a Set, so 100,000 keys stay linear.
 */
export class SeenKeys {
  private counts = new Int32Array(0);
  private hashes = new Int32Array(0);
  private quotes = new Int32Array(0);
  private afters = new Int32Array(0);
  private sets: (Set<string> | undefined)[] = [];
  private hasSets = false;
  /** Number of keys in Sets, over all objects of the text. */
  inSets = 0;

  constructor(private readonly lexer: JsonLexer) {}

  reserve(levels: number): void {
    if (levels <= this.counts.length) return;
    this.counts = new Int32Array(levels);
    this.sets = new Array(levels).fill(undefined);
    this.hashes = new Int32Array(levels * LISTED);
    this.quotes = new Int32Array(levels * LISTED);
    this.afters = new Int32Array(levels * LISTED);
  }

  open(level: number): void {
    this.counts[level] = 0;
    if (this.sets[level] !== undefined) this.sets[level] = undefined;
  }

  release(): void {
    if (this.hasSets) this.sets.fill(undefined);
    this.hasSets = false;
    this.inSets = 0;
  }

  /** Adds the key that the lexer has just read; false if its object already has it. */
  add(level: number, quote: number, after: number): boolean {
    const count = this.counts[level]!;
    if (count === LISTED) return this.addToSet(level, quote, after);

    const first = level * LISTED;
    const next = first + count;
    const hash = this.lexer.keyHash;
    for (let i = first; i < next; i++) {
      if (this.hashes[i] === hash && this.nameOf(i) === this.name(quote, after)) return false;
    }
    this.hashes[next] = hash;
    this.quotes[next] = quote;
    this.afters[next] = after;
    this.counts[level] = count + 1;
    return true;
  }

  private addToSet(level: number, quote: number, after: number): boolean {
    const set = this.sets[level] ?? this.listToSet(level);
    const size = set.size;
    this.inSets++;
    return set.add(this.name(quote, after)).size > size;
  }

  private listToSet(level: number): Set<string> {
    const set = new Set<string>();
    const first = level * LISTED;
    for (let i = first; i < first + LISTED; i++) set.add(this.nameOf(i));
    this.sets[level] = set;
    this.hasSets = true;
    return set;
  }

  private nameOf(i: number): string {
    return this.name(this.quotes[i]!, this.afters[i]!);
  }

  /**
   * The unescaped key, with its opening quote left on: before Node 20.20.2 V8 hashed strings that look like an
   * integer without a random seed (CVE-2026-21717), so such keys could be chosen to share a bucket of the Set.
   */
  private name(quote: number, after: number): string {
    const written = this.lexer.text.slice(quote, after - 1);
    return written.includes('\\') ? `"${this.lexer.keyName(quote, after)}` : written;
  }
}
