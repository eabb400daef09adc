import { type Listener, MAX_LISTENER_LANES } from '../../listeners/listener.ts';

/** A rate for each key needs the key, so it brings the order with it. */
export function keepsOrder({ ordered, rateLimit }: Pick<Listener, 'ordered' | 'rateLimit'>): boolean {
  return ordered || rateLimit?.perKey !== undefined;
}

/** Where a message goes at a listener; WRITE_DELIVERIES computes the same. */
export function laneOfDelivery(
  listener: Pick<Listener, 'number' | 'lanes' | 'ordered' | 'rateLimit'>,
  message: { readonly lane: number; readonly position: number },
): number {
  const nth = (keepsOrder(listener) ? message.lane : message.position) % listener.lanes;
  return listener.number * MAX_LISTENER_LANES + nth;
}

export function listenerOfLane(lane: number): number {
  return Math.floor(lane / MAX_LISTENER_LANES);
}
