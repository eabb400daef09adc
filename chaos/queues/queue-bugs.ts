import { type HandOutRequest, HandOutStore } from '../../src/outbox/pull/hand-out-store.ts';
import { LeaseStore } from '../../src/outbox/pull/lease-store.ts';
import { replaceMethod, rewriteStatement, roundTripOf } from '../change-code.ts';

/** Planted bugs of work queues; see bugs.ts. */
export const QUEUE_BUGS = {
  /** A message is settled by a lease that somebody else has meanwhile. */
  leaseFence: () =>
    rewriteStatement(settleStatement(), ['one.token = asked.token AND one.attempt = asked.attempt AND ', '']),
  /** A message is handed out although a worker has another one of its key. */
  keyInFlight: () =>
    rewriteStatement(handOutStatement(), ['head.key IN (SELECT in_flight.key FROM in_flight)', 'false']),
  /** A message of a worker that died is not handed out again. */
  leaseExpiry: () => replaceMethod(LeaseStore, 'expired', () => async () => []),
  /** A message that is to be retried later can be handed out at once. */
  retryHold: () =>
    rewriteStatement(settleStatement(), [
      `COALESCE(now() + ms * interval '1 millisecond', 'infinity'), held_for`,
      `CASE WHEN held_for = 'retry' THEN now() ELSE COALESCE(now() + ms * interval '1 millisecond', 'infinity') END, held_for`,
    ]),
} as const;

function settleStatement(): string | undefined {
  return roundTripOf((database) => new LeaseStore(database).settle([])).at(-1);
}

function handOutStatement(): string | undefined {
  return roundTripOf((database) => new HandOutStore(database).handOut({} as HandOutRequest)).at(-1);
}
