/** Whether a type fits a pattern, in which `*` stands for any characters, none included. */
export type Fits = (type: string) => boolean;

export function isPattern(type: string): boolean {
  return type.includes('*');
}

/**
 * Not a regular expression: `a*a*a*…b` would make one go back and forth for years. Here each piece between two stars
 * is looked for once, from where the one before it ended.
 */
export function compilePattern(pattern: string): Fits {
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

/** Producers choose types: the answers kept are bounded. */
const MAX_ANSWERS = 10_000;

/** Who wants a type: computed once per type, then looked up. */
export class TypeIndex<T extends { readonly types: readonly string[] }> {
  private readonly exact = new Map<string, T[]>();
  private readonly patterns: { readonly fits: Fits; readonly owner: T }[] = [];
  private readonly answers = new Map<string, readonly T[]>();

  constructor(private readonly owners: readonly T[]) {
    for (const owner of owners) {
      for (const type of owner.types) {
        if (isPattern(type)) this.patterns.push({ fits: compilePattern(type), owner });
        else this.exact.set(type, [...(this.exact.get(type) ?? []), owner]);
      }
    }
  }

  /** Each one once, in the order they were given. */
  of(type: string): readonly T[] {
    const known = this.answers.get(type);
    if (known) return known;
    const wanting = new Set(this.exact.get(type));
    for (const { fits, owner } of this.patterns) if (fits(type)) wanting.add(owner);
    const answer = this.owners.filter((owner) => wanting.has(owner));
    if (this.answers.size >= MAX_ANSWERS) this.answers.clear();
    this.answers.set(type, answer);
    return answer;
  }
}
