/** Whether a type matches a pattern, in which `*` matches any number of characters. */
export type Matches = (type: string) => boolean;

export function isPattern(type: string): boolean {
  return type.includes('*');
}

/**
 * Not a regular expression: `a*a*a*…b` would make one backtrack for years. Here each piece between two stars is searched
 * once, from the end of the one before it.
 */
export function compilePattern(pattern: string): Matches {
  const pieces = pattern.split('*');
  const first = pieces[0]!;
  const last = pieces.at(-1)!;
  const inner = pieces.slice(1, -1).filter((piece) => piece !== '');
  if (pieces.length === 1) return (type) => type === pattern;
  return (type) => {
    if (type.length < first.length + last.length) return false;
    if (!type.startsWith(first) || !type.endsWith(last)) return false;
    const end = type.length - last.length;
    let from = first.length;
    for (const piece of inner) {
      const at = type.indexOf(piece, from);
      if (at === -1 || at + piece.length > end) return false;
      from = at + piece.length;
    }
    return true;
  };
}

/** A pattern for LIKE. */
export function likeOf(pattern: string): string {
  return pattern.replaceAll(/[\\%_]/g, '\\$&').replaceAll('*', '%');
}

/** Producers choose types, so the cache is bounded. */
const MAX_CACHED = 10_000;

/** The owners of a type: computed once per type, then cached. */
export class TypeIndex<T extends { readonly types: readonly string[] }> {
  private readonly exact = new Map<string, T[]>();
  private readonly patterns: { readonly matches: Matches; readonly owner: T }[] = [];
  private readonly cached = new Map<string, readonly T[]>();

  constructor(private readonly owners: readonly T[]) {
    for (const owner of owners) {
      for (const type of owner.types) {
        if (isPattern(type)) this.patterns.push({ matches: compilePattern(type), owner });
        else this.exact.set(type, [...(this.exact.get(type) ?? []), owner]);
      }
    }
  }

  /** Each one once, in the order they were given. */
  of(type: string): readonly T[] {
    const known = this.cached.get(type);
    if (known) return known;
    const matching = new Set(this.exact.get(type));
    for (const { matches, owner } of this.patterns) if (matches(type)) matching.add(owner);
    const owners = this.owners.filter((owner) => matching.has(owner));
    if (this.cached.size >= MAX_CACHED) this.cached.clear();
    this.cached.set(type, owners);
    return owners;
  }
}
