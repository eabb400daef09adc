import type { Listener } from '../../listeners/listener.ts';
import type { Answer } from '../../webhooks/answer.ts';

/** What an answer means for the delivery, and for its listener. */
export type Outcome =
  | { readonly kind: 'delivered' }
  /** An attempt that is not charged does not count towards the schedule. */
  | {
      readonly kind: 'retry';
      readonly afterMs: number;
      readonly charged: boolean;
      /** The receiver has too much to do: send it less for a while. */
      readonly throttled: boolean;
      readonly reason: string;
    }
  /** The whole listener waits; never charged. */
  | {
      readonly kind: 'pause';
      readonly afterMs: number;
      readonly throttled: boolean;
      readonly reason: string;
    }
  | {
      readonly kind: 'dead';
      readonly throttled: boolean;
      readonly reason: string;
      readonly disable?: true;
    };

export interface Tries {
  /** This one included, counted from 1; what was not charged is not counted. */
  readonly attempt: number;
  /** Since the delivery was owed; a revival or a replay makes it owed anew. */
  readonly ageMs: number;
}

type Terms = Pick<Listener, 'retryScheduleMs' | 'terminalStatuses'>;
type Answered = Extract<Answer, { kind: 'answered' }>;
type Failed = Extract<Answer, { kind: 'failed' }>;

const GONE = 410;
const ASKS_TO_WAIT: readonly number[] = [429, 503];
const OVERLOADED: readonly number[] = [429, 502, 504];

/** Whoever asks for more time: after this long it counts like any failure. */
export const PATIENCE_MS = 75 * 3_600_000;
/** `Retry-After: 0` must not become a loop without a pause. */
const MIN_PAUSE_MS = 1_000;
const JITTER = 0.2;

export function outcomeOf(
  answer: Answer,
  listener: Terms,
  tries: Tries,
  random: () => number = Math.random,
): Outcome {
  if (answer.kind === 'failed') return outcomeOfFault(answer, listener, tries, random);
  const { status } = answer;
  if (status >= 200 && status < 300) return { kind: 'delivered' };
  const reason = `answered ${status}`;
  const throttled = OVERLOADED.includes(status);
  if (status === GONE) return { kind: 'dead', throttled, reason, disable: true };
  if (listener.terminalStatuses.includes(status)) return { kind: 'dead', throttled, reason };
  const pauseMs = askedToWait(answer);
  if (pauseMs !== undefined && tries.ageMs < PATIENCE_MS) {
    return { kind: 'pause', afterMs: Math.max(pauseMs, MIN_PAUSE_MS), throttled, reason };
  }
  return nextTry(listener, tries, random, { throttled, reason, atLeastMs: pauseMs ?? 0 });
}

function outcomeOfFault(answer: Failed, listener: Terms, tries: Tries, random: () => number): Outcome {
  const reason = `${answer.fault}: ${answer.detail}`;
  if (answer.fault !== 'ours')
    return nextTry(listener, tries, random, { throttled: false, reason, atLeastMs: 0 });
  const afterMs = jittered(soon(tries.ageMs), random);
  return { kind: 'retry', afterMs, charged: false, throttled: false, reason };
}

function askedToWait({ status, retryAfterMs }: Answered): number | undefined {
  return ASKS_TO_WAIT.includes(status) ? retryAfterMs : undefined;
}

function nextTry(
  { retryScheduleMs }: Terms,
  { attempt }: Tries,
  random: () => number,
  { throttled, reason, atLeastMs }: { throttled: boolean; reason: string; atLeastMs: number },
): Outcome {
  const waitMs = retryScheduleMs[attempt - 1];
  if (waitMs === undefined) return { kind: 'dead', throttled, reason };
  const afterMs = Math.max(jittered(waitMs, random), atLeastMs);
  return { kind: 'retry', afterMs, charged: true, throttled, reason };
}

/** A tenth of the age, 1 s to 5 min: quick after a hiccup; then a 900th: three thousand more tries in 90 days without DNS. */
function soon(ageMs: number): number {
  return Math.max(1_000, Math.min(ageMs / 10, 300_000), ageMs / 900);
}

/** Never earlier than asked, up to 20 % later: those that failed together do not come back together. */
function jittered(ms: number, random: () => number): number {
  return Math.round(ms * (1 + JITTER * random()));
}
