/** Who wants which types, and how: a definition as the engine uses it (times in milliseconds). */
export interface Listener {
  /** Names its lanes: the n-th lane of a listener is `number * 256 + n`. */
  readonly number: number;
  readonly name: string;
  /** Of its last change: tells whether what is known is still so. */
  readonly revision: number;
  readonly mode: 'webhook' | 'pull';
  /** Exact types, or patterns with `*` for any characters. */
  readonly types: readonly string[];
  readonly url: string;
  readonly ordered: boolean;
  readonly lanes: number;
  readonly timeoutMs: number;
  readonly retryScheduleMs: readonly number[];
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

/** Deliveries are owed in every state; they are sent only while active. */
export type ListenerState = 'active' | 'paused' | 'disabled';

/** Lanes of one listener, and of the number space between two listeners. */
export const MAX_LISTENER_LANES = 256;
