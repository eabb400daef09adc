/** The candidate with the fewest edits from `word`, at most `limit`; for "did you mean …?". */
export function nearest(word: string, candidates: readonly string[], limit: number): string | undefined {
  let best: string | undefined;
  let bestDistance = limit + 1;
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - word.length) > limit) continue;
    const distance = editDistance(word, candidate);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/**
 * Whether `word` is `name` with two adjacent letters swapped, one letter missing or one letter too many. Used for short
 * names: PATH and POST are within two edits of PORT and are not typos, but PROT certainly is one.
 */
export function isSlipOf(word: string, name: string): boolean {
  if (word.length === name.length) {
    const at = [...name].findIndex((letter, index) => letter !== word[index]);
    return at >= 0 && word === name.slice(0, at) + name[at + 1] + name[at] + name.slice(at + 2);
  }
  const [short, long] = word.length < name.length ? [word, name] : [name, word];
  if (long.length !== short.length + 1) return false;
  const at = [...long].findIndex((letter, index) => letter !== short[index]);
  // Numbered names (PORT0) belong to other programs.
  return /[A-Z]/.test(long[at]!) && short === long.slice(0, at) + long.slice(at + 1);
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = previous[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      current[j] = Math.min(previous[j]! + 1, current[j - 1]! + 1, substitution);
    }
    previous = current;
  }
  return previous[b.length]!;
}
