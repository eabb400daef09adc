import { SLOTS } from './slot-of.ts';

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

/** The opposite; undefined if the text is not of that form, or names a slot that does not exist. */
export function slotsOf(ranges: string): number[] | undefined {
  const slots = new Set<number>();
  for (const range of ranges.split(',')) {
    const [, first, last = first] = /^(\d{1,3})(?:-(\d{1,3}))?$/.exec(range.trim()) ?? [];
    const [from, to] = [Number(first), Number(last)];
    if (first === undefined || from > to || to >= SLOTS) return undefined;
    for (let slot = from; slot <= to; slot++) slots.add(slot);
  }
  return [...slots].sort((a, b) => a - b);
}
