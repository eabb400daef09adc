import type { Listener } from '../../listeners/listener.ts';
import type { ClaimedDelivery, MessageContent } from '../claim/claimed-delivery.ts';
import type { HeldLane } from '../claim/held-lane.ts';
import { inParts } from '../fan-out/message-contents.ts';
import type { Result, Tried } from '../settle/delivery-result.ts';
import type { Outcome } from './outcome.ts';

/** What a run needs from around it. */
export interface LaneRunDeps {
  contentOf(deliveries: readonly ClaimedDelivery[]): Promise<ReadonlyMap<number, MessageContent>>;
  /** As it is defined now; undefined: nothing more is to be sent on this lane. */
  admit(held: HeldLane): Listener | undefined | Promise<Listener | undefined>;
  /** Never throws. Every admission ends with it, or with `decline`. */
  send(
    delivery: ClaimedDelivery,
    content: MessageContent,
    held: HeldLane,
    listener: Listener,
  ): Promise<Omit<Tried, 'kind' | 'held' | 'delivery' | 'listener'>>;
  decline(held: HeldLane): void;
  add(result: Result): void;
}

/**
 * Sends the claimed deliveries of one lane, one after the other: so a key's deliveries keep their order, and a lane is
 * one delivery in flight. A key whose delivery waits makes its later ones wait; other keys go on.
 * Answers whether it went through all of them; what it did not come to is as it was.
 */
export async function runLane(
  held: HeldLane,
  deliveries: readonly ClaimedDelivery[],
  around: LaneRunDeps,
): Promise<boolean> {
  const waitingKeys = new Set<string>();
  let through = true;
  for (const part of inParts(deliveries)) {
    const wanted = part.filter(({ key }) => !waitingKeys.has(key));
    const contents = through && wanted.length > 0 ? await contentsOf(wanted, around) : undefined;
    for (const delivery of part) {
      if (waitingKeys.has(delivery.key)) around.add({ kind: 'behind', held, delivery });
      else if (!(through && contents)) {
        through = false;
        around.add({ kind: 'untouched', held, delivery });
      } else {
        const result = await sendOne(held, delivery, contents.get(delivery.message), around);
        around.add(result);
        through = result.kind !== 'untouched';
        if (keyWaits(result)) waitingKeys.add(delivery.key);
      }
    }
  }
  return through;
}

/** Undefined: the database is away. What cannot be read cannot be sent, and is not lost by waiting. */
async function contentsOf(
  deliveries: readonly ClaimedDelivery[],
  around: LaneRunDeps,
): Promise<ReadonlyMap<number, MessageContent> | undefined> {
  try {
    return await around.contentOf(deliveries);
  } catch {
    return undefined;
  }
}

async function sendOne(
  held: HeldLane,
  delivery: ClaimedDelivery,
  content: MessageContent | undefined,
  around: LaneRunDeps,
): Promise<Result> {
  const admitted = around.admit(held);
  const listener = admitted instanceof Promise ? await admitted : admitted;
  if (!listener) return { kind: 'untouched', held, delivery };
  const reason = content ? usedUp(delivery, listener) : 'its message was removed before it could be sent';
  if (reason !== undefined) {
    around.decline(held);
    return { kind: 'unsendable', held, delivery, listener, reason };
  }
  const sent = await around.send(delivery, content!, held, listener);
  return { kind: 'tried', held, delivery, listener, ...sent };
}

/** Attempts are counted when they are claimed: only crashes lead beyond the last one. */
function usedUp({ attempt }: ClaimedDelivery, { retryScheduleMs }: Listener): string | undefined {
  if (attempt <= retryScheduleMs.length + 1) return undefined;
  return `its replica died while sending it, ${attempt - 1} times in a row`;
}

function keyWaits(result: Result): boolean {
  if (result.kind === 'untouched') return false;
  if (result.kind === 'unsendable') return result.listener.onDead === 'hold';
  if (result.kind === 'behind') return true;
  return outcomeHolds(result.outcome, result.listener);
}

function outcomeHolds(outcome: Outcome, { onDead, rateLimit }: Listener): boolean {
  if (outcome.kind === 'retry' || outcome.kind === 'pause') return true;
  return (outcome.kind === 'dead' && onDead === 'hold') || rateLimit?.perKey !== undefined;
}
