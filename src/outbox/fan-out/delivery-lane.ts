import { type Listener, MAX_LISTENER_LANES } from '../../listeners/listener.ts';

/** A rate limit per key needs the key as well, so it implies order. */
export function keepsOrder({ ordered, rateLimit }: Pick<Listener, 'ordered' | 'rateLimit'>): boolean {
  return ordered || rateLimit?.perKey !== undefined;
}

/** The lane of a message at a listener; WRITE_DELIVERIES computes the same. */
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
