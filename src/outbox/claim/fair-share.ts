import { listenerOfLane } from '../fan-out/delivery-lane.ts';

/** No listener takes more than a quarter of the lanes that are still free. */
const SHARE = 4;

/**
 * Chooses among lanes with something to send: the fewer lanes this replica may still hold, the fewer it takes of one
 * listener. So there is a lane left for the next listener, however many others hang.
 */
export function fairShare(
  lanes: readonly number[],
  limit: number,
  heldBy: (listener: number) => number,
): { chosen: number[]; left: number[] } {
  const counts = new Map<number, number>();
  const chosen: number[] = [];
  const left: number[] = [];
  for (const lane of lanes) {
    const listener = listenerOfLane(lane);
    const count = counts.get(listener) ?? heldBy(listener);
    const free = limit - chosen.length;
    const fits = free > 0 && count < Math.max(1, Math.floor(free / SHARE));
    (fits ? chosen : left).push(lane);
    counts.set(listener, count + (fits ? 1 : 0));
  }
  return { chosen, left };
}
