import type { Broker, BrokerMode } from '../brokers/broker.ts';

/** How a listener gets its deliveries: they are posted to it, pulled by it, or published to a broker. */
export type ListenerMode = 'webhook' | 'pull' | BrokerMode;

/** Which types an endpoint receives or a consumer pulls, and how: a definition as the engine uses it (times in milliseconds). */
export interface Listener {
  /** Names its lanes: the n-th lane of a listener is `number * 256 + n`. */
  readonly number: number;
  readonly name: string;
  /** Of its last change: shows whether the copy in memory is current. */
  readonly revision: number;
  readonly mode: ListenerMode;
  /** Exact types, or patterns with `*` for any characters. */
  readonly types: readonly string[];
  /** Only of a webhook; otherwise empty. */
  readonly url: string;
  readonly broker: Broker | undefined;
  readonly ordered: boolean;
  readonly lanes: number;
  readonly timeoutMs: number;
  readonly retryScheduleMs: readonly number[];
  /** Of a listener that is pulled: how long a consumer has a message. */
  readonly leaseMs: number;
  /** Of a listener that is pulled: max messages that consumers have at a time. */
  readonly maxInFlight: number;
  readonly terminalStatuses: readonly number[];
  readonly rateLimit: RateLimitRule | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly format: 'standard' | 'cloudevents';
  readonly onDead: 'skip' | 'hold';
  readonly disableAfter: { readonly status: number; readonly times: number } | undefined;
  readonly state: ListenerState;
  /** `whsec_…`, the current one first; two while a rotation lasts. */
  readonly secrets: readonly string[];
}

export interface RateLimitRule {
  readonly perSecond: number;
  readonly burst: number;
  readonly perKey: { readonly perSecond: number } | undefined;
}

/** Deliveries are created in every state; they are sent only while the listener is active. */
export type ListenerState = 'active' | 'paused' | 'disabled';

/** Max lanes of one listener, and the distance between the lane numbers of two listeners. */
export const MAX_LISTENER_LANES = 256;

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
