import type { HoldRequest } from '../../lanes/lane-queue-types.ts';
import type { Listener } from '../../listeners/listener.ts';
import type { ClaimedDelivery } from '../claim/outbox-queue.ts';
import type { FailedAttempt } from '../outbox-store.ts';
import type { Result, SentDelivery } from './delivery-result.ts';

/**
 * When a listener asked for a pause, its gate makes it wait: the gate is removed by a new URL or a resume, a hold would stay.
 * The key is held only as long as it may take until every replica has read the gate.
 */
const MAX_PAUSE_HOLD_MS = 2_000;
/** Share of the age: a key that is asked to wait again and again, while others are not, is tried a few thousand times in 75 hours. */
const PAUSE_SHARE = 1 / 900;

/** The changes that a batch of results makes. */
export interface Settlement {
  readonly record: FailedAttempt[];
  readonly delivered: {
    delivery: ClaimedDelivery;
    status: number | undefined;
    excerpt: string;
    durationMs: number;
  }[];
  readonly dead: { delivery: ClaimedDelivery; error: string }[];
  readonly putBack: { delivery: ClaimedDelivery; error?: string; counted: boolean }[];
  readonly untouched: { delivery: ClaimedDelivery }[];
  readonly holds: HoldRequest[];
}

/** Pure: decides what is written for each result. */
export function settlementOf(results: readonly Result[], nowMs: number = performance.now()): Settlement {
  const written: Settlement = { record: [], delivered: [], dead: [], putBack: [], untouched: [], holds: [] };
  const holds = new Map<string, HoldRequest>();
  for (const result of results) {
    const { delivery } = result;
    if (result.kind === 'behind') written.putBack.push({ delivery, counted: false });
    else if (result.kind === 'untouched') written.untouched.push({ delivery });
    else {
      if (result.kind === 'sent') addSent(result, written);
      else addUnsendable(delivery, result.reason, written);
      const hold = holdAfter(result, nowMs);
      // Of two results of one key in a batch, the later one counts.
      if (hold)
        holds.set(`${delivery.lane}/${delivery.key}`, { key: delivery.key, lane: delivery.lane, ...hold });
    }
  }
  written.holds.push(...holds.values());
  return written;
}

const NO_RESPONSE = { status: undefined, excerpt: undefined };

function responseOf(callResult: SentDelivery['callResult']) {
  if (callResult.kind === 'acknowledged') return { status: undefined, excerpt: callResult.detail };
  return callResult.kind === 'responded' ? callResult : NO_RESPONSE;
}

function addSent({ delivery, callResult, outcome }: SentDelivery, written: Settlement): void {
  const { status, excerpt } = responseOf(callResult);
  if (outcome.kind === 'delivered') {
    written.delivered.push({
      delivery,
      status,
      excerpt: excerpt!,
      durationMs: callResult.durationMs,
    });
    return;
  }
  const { reason: error } = outcome;
  written.record.push({ delivery, status, error, excerpt, durationMs: callResult.durationMs });
  if (outcome.kind === 'dead') written.dead.push({ delivery, error });
  else written.putBack.push({ delivery, error, counted: outcome.kind === 'retry' ? outcome.counted : false });
}

function addUnsendable(delivery: ClaimedDelivery, error: string, written: Settlement): void {
  written.record.push({ delivery, status: undefined, error, excerpt: undefined, durationMs: 0 });
  written.dead.push({ delivery, error });
}

/** A key waits for its retry and for its own rate, whichever is longer, or behind its dead letter if the listener wants that. */
function holdAfter(
  result: Exclude<Result, { kind: 'behind' | 'untouched' }>,
  nowMs: number,
): Pick<HoldRequest, 'forMs' | 'reason'> | undefined {
  const { listener } = result;
  if (result.kind === 'unsendable') return deadLetterHold(listener);
  const { outcome, atMs } = result;
  const rateMs = rateLeftMs(listener, atMs, nowMs);
  if (outcome.kind === 'retry') return { forMs: Math.max(outcome.afterMs, rateMs ?? 0), reason: 'retry' };
  if (outcome.kind === 'pause') {
    const ownMs = Math.round(result.delivery.age_ms * PAUSE_SHARE);
    return {
      forMs: Math.max(Math.min(outcome.afterMs, MAX_PAUSE_HOLD_MS), ownMs, rateMs ?? 0),
      reason: 'rate',
    };
  }
  const behindDead = outcome.kind === 'dead' ? deadLetterHold(listener) : undefined;
  return behindDead ?? (rateMs === undefined ? undefined : { forMs: rateMs, reason: 'rate' });
}

function deadLetterHold({ onDead }: Listener): Pick<HoldRequest, 'forMs' | 'reason'> | undefined {
  return onDead === 'hold' ? { forMs: undefined, reason: 'dead-letter' } : undefined;
}

/** Counted from the response, not from when it is written: the request had arrived by then, however long it took. */
function rateLeftMs({ rateLimit }: Listener, atMs: number, nowMs: number): number | undefined {
  if (!rateLimit?.perKey) return undefined;
  const everyMs = 1000 / rateLimit.perKey.perSecond;
  return Math.max(0, Math.ceil(everyMs - (nowMs - atMs)));
}
