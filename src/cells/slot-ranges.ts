/** `0-3,7` of [0, 1, 2, 3, 7]; the slots are in order. */
export function rangesOf(slots: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const slot of slots) {
    const last = ranges.at(-1);
    if (last && last[1] === slot - 1) last[1] = slot;
    else ranges.push([slot, slot]);
  }
  return ranges.map(([from, to]) => (from === to ? String(from) : `${from}-${to}`)).join(',');
}
