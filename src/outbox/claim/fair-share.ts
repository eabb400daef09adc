import { listenerOfLane } from '../fan-out/delivery-lane.ts';

/** No listener takes more than a quarter of the room that is left. */
const SHARE = 4;

/**
 * Chooses among lanes with something to send: the scarcer the room, the fewer lanes of one listener. So however many
 * listeners hang, there is room for the next one.
 */
export function fairShare(
  lanes: readonly number[],
  room: number,
  heldBy: (listener: number) => number,
): { chosen: number[]; left: number[] } {
  const counts = new Map<number, number>();
  const chosen: number[] = [];
  const left: number[] = [];
  for (const lane of lanes) {
    const listener = listenerOfLane(lane);
    const count = counts.get(listener) ?? heldBy(listener);
    const free = room - chosen.length;
    const fits = free > 0 && count < Math.max(1, Math.floor(free / SHARE));
    (fits ? chosen : left).push(lane);
    counts.set(listener, count + (fits ? 1 : 0));
  }
  return { chosen, left };
}
