export type JsonKind = 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null';

/** An unparsed value: `text.slice(start, end)` is its text as sent, without surrounding whitespace. */
export interface JsonSlice {
  kind: JsonKind;
  /** The member's name, unescaped; '' for an element and for the document. */
  key: string;
  start: number;
  end: number;
  /** The members or elements in order; undefined for a scalar and for values below the outline. */
  children: JsonSlice[] | undefined;
}

/** The slices of the top levels of a text, built while it is scanned. */
export class JsonOutline {
  /** The document is level 0. */
  private levels = 0;
  private maxChildren: readonly number[] = [];
  /** The offset of the scanned part in the whole text. */
  private base = 0;
  private open: JsonSlice[] = [];

  begin(levels: number, maxChildren: readonly number[], base: number): void {
    this.levels = levels;
    this.maxChildren = maxChildren;
    this.base = base;
  }

  get document(): JsonSlice {
    return this.open[0]!;
  }

  release(): void {
    this.open = [];
  }

  has(level: number): boolean {
    return level <= this.levels;
  }

  /** Whether the container at a level has its maximum number of children; below the outline nothing is counted. */
  isFull(level: number): boolean {
    const max = this.maxChildren[level];
    return max !== undefined && level < this.levels && this.open[level]!.children!.length >= max;
  }

  add(level: number, key: string, firstCode: number, start: number, end: number): void {
    const kind = kindOf(firstCode);
    const isOutlined = level < this.levels && (kind === 'object' || kind === 'array');
    const children = isOutlined ? [] : undefined;
    const slice = { kind, key, start: start + this.base, end: end + this.base, children };
    if (level > 0) this.open[level - 1]!.children!.push(slice);
    this.open[level] = slice;
  }

  close(level: number, end: number): void {
    if (this.has(level)) this.open[level]!.end = end + this.base;
  }
}

function kindOf(firstCode: number): JsonKind {
  switch (firstCode) {
    case 0x22: // "
      return 'string';
    case 0x7b: // {
      return 'object';
    case 0x5b: // [
      return 'array';
    case 0x74: // t
    case 0x66: // f
      return 'boolean';
    case 0x6e: // n
      return 'null';
    default:
      return 'number';
  }
}
