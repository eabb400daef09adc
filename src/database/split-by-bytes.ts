/** Splits items, in order, into parts of at most `maxBytes`; an item that is larger than that is a part of its own. */
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
