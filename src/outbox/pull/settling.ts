import type { Listener } from '../../listeners/listener.ts';
import type { LeaseRef } from './lease-token.ts';

/** What is asked for: by a consumer, or (`expired`, `returned`) by the service itself. */
export type Verdict =
  | { readonly kind: 'acknowledge' }
  | { readonly kind: 'retry'; readonly afterMs: number | undefined; readonly reason: string | undefined }
  | { readonly kind: 'reject'; readonly reason: string }
  | { readonly kind: 'extend'; readonly byMs: number | undefined }
  /** The lease ran out. */
  | { readonly kind: 'expired' }
  /** It never reached a consumer. */
  | { readonly kind: 'returned' };

/** What is written for one lease. */
export interface Settling {
  readonly ref: LeaseRef;
  readonly kind: 'finish' | 'dead' | 'retry' | 'expire' | 'return' | 'extend';
  /** Only if the lease has expired; otherwise only if it has not. */
  readonly late: boolean;
  /** How much longer the lease lasts, or how long the key is held; undefined: indefinitely. */
  readonly ms?: number | undefined;
  /** Why the key is held; undefined: it is not. */
  readonly hold?: 'retry' | 'rate' | 'dead-letter' | undefined;
  readonly error?: string | undefined;
}

type Terms = Pick<Listener, 'retryScheduleMs' | 'leaseMs' | 'rateLimit' | 'onDead'>;
type Hold = Pick<Settling, 'hold' | 'ms'>;

const JITTER = 0.2;
const RAN_OUT = 'the lease ran out; it may have been processed';
const RETRY_REQUESTED = 'the consumer asked for a retry';

/** Pure: decides what is written. */
export function settlingOf(
  ref: LeaseRef,
  verdict: Verdict,
  listener: Terms,
  random: () => number = Math.random,
): Settling {
  switch (verdict.kind) {
    case 'acknowledge':
      return { ref, kind: 'finish', late: false, ...rateHold(listener) };
    case 'retry':
      return retried(ref, verdict, listener, random);
    case 'reject':
      return { ref, kind: 'dead', late: false, error: verdict.reason, ...deadHold(listener) };
    case 'extend':
      return { ref, kind: 'extend', late: false, ms: verdict.byMs ?? listener.leaseMs };
    case 'expired':
      return isLast(ref, listener)
        ? { ref, kind: 'dead', late: true, error: RAN_OUT, ...deadHold(listener) }
        : { ref, kind: 'expire', late: true, error: RAN_OUT, ...rateHold(listener) };
    case 'returned':
      return { ref, kind: 'return', late: false };
  }
}

function retried(
  ref: LeaseRef,
  { afterMs, reason: error = RETRY_REQUESTED }: Extract<Verdict, { kind: 'retry' }>,
  listener: Terms,
  random: () => number,
): Settling {
  if (isLast(ref, listener)) return { ref, kind: 'dead', late: false, error, ...deadHold(listener) };
  const waitMs = afterMs ?? jittered(listener.retryScheduleMs[ref.attempt - 1]!, random);
  const ms = Math.max(waitMs, rateHold(listener).ms ?? 0);
  return { ref, kind: 'retry', late: false, error, ms, hold: 'retry' };
}

function isLast({ attempt }: LeaseRef, { retryScheduleMs }: Terms): boolean {
  return attempt > retryScheduleMs.length;
}

/** Counted from the end of the lease: the consumer may have used all of it. */
function rateHold({ rateLimit }: Terms): Hold {
  return rateLimit?.perKey ? { hold: 'rate', ms: Math.ceil(1000 / rateLimit.perKey.perSecond) } : {};
}

function deadHold(listener: Terms): Hold {
  return listener.onDead === 'hold' ? { hold: 'dead-letter', ms: undefined } : rateHold(listener);
}

/** Never earlier than defined, up to 20 % later: messages that failed together are not handed out together. */
function jittered(ms: number, random: () => number): number {
  return Math.round(ms * (1 + JITTER * random()));
}
