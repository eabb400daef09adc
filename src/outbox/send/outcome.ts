import type { Listener } from '../../listeners/listener.ts';
import type { CallResult } from '../../webhooks/call-result.ts';

/** What the result of a call means for the delivery and for its listener. */
export type Outcome =
  | { readonly kind: 'delivered' }
  /** An attempt that is not counted does not use up the schedule. */
  | {
      readonly kind: 'retry';
      readonly afterMs: number;
      readonly counted: boolean;
      /** The receiver is overloaded: fewer calls are made at a time. */
      readonly overloaded: boolean;
      readonly reason: string;
    }
  /** The whole listener waits; the attempt is never counted. */
  | {
      readonly kind: 'pause';
      readonly afterMs: number;
      readonly overloaded: boolean;
      readonly reason: string;
    }
  | {
      readonly kind: 'dead';
      readonly overloaded: boolean;
      readonly reason: string;
      readonly disable?: true;
    };

export interface AttemptState {
  /** Counted from 1, including this one; attempts that were not counted are left out. */
  readonly attempt: number;
  /** Since the fan-out, or since the delivery was revived or replayed. */
  readonly ageMs: number;
}

type RetryRules = Pick<Listener, 'retryScheduleMs' | 'terminalStatuses'>;
type CallResponse = Extract<CallResult, { kind: 'responded' }>;
type CallFailure = Extract<CallResult, { kind: 'failed' }>;

const HTTP_GONE = 410;
const ASKS_TO_WAIT: readonly number[] = [429, 503];
const OVERLOADED: readonly number[] = [429, 502, 504];

/** How long a listener may ask for pauses; after that, asking for one counts like any failure. */
export const MAX_PAUSED_MS = 75 * 3_600_000;
/** After the restart of a broker its keys continue within this time and the jitter; a circuit limits the calls. */
const MAX_UNSENT_WAIT_MS = 15_000;
/** `Retry-After: 0` must not become a busy loop. */
const MIN_PAUSE_MS = 1_000;
const JITTER = 0.2;

export function outcomeOf(
  result: CallResult,
  listener: RetryRules,
  state: AttemptState,
  random: () => number = Math.random,
): Outcome {
  if (result.kind === 'acknowledged') return { kind: 'delivered' };
  if (result.kind === 'failed') return outcomeOfFailure(result, listener, state, random);
  const { status } = result;
  if (status >= 200 && status < 300) return { kind: 'delivered' };
  const reason = `responded ${status}`;
  const overloaded = OVERLOADED.includes(status);
  if (status === HTTP_GONE) return { kind: 'dead', overloaded, reason, disable: true };
  if (listener.terminalStatuses.includes(status)) return { kind: 'dead', overloaded, reason };
  const pauseMs = askedToWait(result);
  if (pauseMs !== undefined && state.ageMs < MAX_PAUSED_MS) {
    return { kind: 'pause', afterMs: Math.max(pauseMs, MIN_PAUSE_MS), overloaded, reason };
  }
  return nextAttempt(listener, state, random, { overloaded, reason, atLeastMs: pauseMs ?? 0 });
}

function outcomeOfFailure(
  result: CallFailure,
  listener: RetryRules,
  state: AttemptState,
  random: () => number,
): Outcome {
  const reason = `${result.reason}: ${result.detail}`;
  const waitMs = uncountedWaitMs(result, state);
  if (waitMs === undefined)
    return nextAttempt(listener, state, random, { overloaded: false, reason, atLeastMs: 0 });
  return { kind: 'retry', afterMs: jittered(waitMs, random), counted: false, overloaded: false, reason };
}

/** Undefined: the attempt counts. */
function uncountedWaitMs({ reason, unsent }: CallFailure, { ageMs }: AttemptState): number | undefined {
  if (reason === 'local') return localRetryMs(ageMs);
  // A stream recognizes the id of a message only for minutes, so the next attempt after one in doubt must not wait for long.
  return unsent && ageMs < MAX_PAUSED_MS ? Math.min(localRetryMs(ageMs), MAX_UNSENT_WAIT_MS) : undefined;
}

function askedToWait({ status, retryAfterMs }: CallResponse): number | undefined {
  return ASKS_TO_WAIT.includes(status) ? retryAfterMs : undefined;
}

function nextAttempt(
  { retryScheduleMs }: RetryRules,
  { attempt }: AttemptState,
  random: () => number,
  { overloaded, reason, atLeastMs }: { overloaded: boolean; reason: string; atLeastMs: number },
): Outcome {
  const waitMs = retryScheduleMs[attempt - 1];
  if (waitMs === undefined) return { kind: 'dead', overloaded, reason };
  const afterMs = Math.max(jittered(waitMs, random), atLeastMs);
  return { kind: 'retry', afterMs, counted: true, overloaded, reason };
}

/**
 * A tenth of the age, between 1 s and 5 min: quick after a short outage. Later a 900th of the age: three thousand more
 * attempts in 90 days without DNS.
 */
function localRetryMs(ageMs: number): number {
  return Math.max(1_000, Math.min(ageMs / 10, 300_000), ageMs / 900);
}

/** Never earlier than asked, up to 20 % later: deliveries that failed together are not retried together. */
function jittered(ms: number, random: () => number): number {
  return Math.round(ms * (1 + JITTER * random()));
}
