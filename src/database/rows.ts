/** Parts that are loaded one after the other, in their order; each may be in memory as a whole, unless one item alone is larger. */
export function splitByBytes<Item>(
  items: readonly Item[],
  maxBytes: number,
  bytesOf: (item: Item) => number,
): Item[][] {
  const parts: Item[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const item of items) {
    bytes += bytesOf(item);
    if (bytes > maxBytes) {
      parts.push([]);
      bytes = bytesOf(item);
    }
    parts.at(-1)!.push(item);
  }
  return parts;
}
