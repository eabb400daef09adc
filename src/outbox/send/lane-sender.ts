import { Injectable } from '@nestjs/common';
import type { Listener } from '../../listeners/listener.ts';
import { Admission } from '../admit/admission.ts';
import type { LeasedLane } from '../claim/leased-lane.ts';
import type { ClaimedDelivery, MessageContent } from '../claim/outbox-queue.ts';
import { inParts, MessageContents } from '../fan-out/message-contents.ts';
import type { Result } from '../settle/delivery-result.ts';
import { ResultWriter } from '../settle/result-writer.ts';
import { DeliverySender } from './delivery-sender.ts';
import type { Outcome } from './outcome.ts';

/**
 * Sends the claimed deliveries of one lane: load → admit → send → hand the result to the writer. One after the other, so
 * the deliveries of a key keep their order and a lane has one delivery in flight. When a delivery has to wait, the later
 * ones of its key wait behind it; other keys go on.
 */
@Injectable()
export class LaneSender {
  constructor(
    private readonly contents: MessageContents,
    private readonly admission: Admission,
    private readonly sender: DeliverySender,
    private readonly results: ResultWriter,
  ) {}

  /** Returns whether it got through all of them; false: it had to stop, and the rest is put back as it was. */
  async sendAll(leased: LeasedLane, deliveries: readonly ClaimedDelivery[]): Promise<boolean> {
    const waitingKeys = new Set<string>();
    let stopped = false;
    for (const part of inParts(deliveries)) {
      const sendable = part.filter(({ key }) => !waitingKeys.has(key));
      const contents = stopped || sendable.length === 0 ? undefined : await this.load(sendable);
      for (const delivery of part) {
        if (waitingKeys.has(delivery.key)) this.results.add({ kind: 'behind', leased, delivery });
        else if (stopped || !contents) {
          stopped = true;
          this.results.add({ kind: 'untouched', leased, delivery });
        } else {
          const result = await this.sendOne(leased, delivery, contents.get(delivery.message));
          this.results.add(result);
          stopped = result.kind === 'untouched';
          if (keyWaits(result)) waitingKeys.add(delivery.key);
        }
      }
    }
    return !stopped;
  }

  /** Undefined: the database is away. A delivery that cannot be read cannot be sent, and loses nothing by waiting. */
  private async load(
    deliveries: readonly ClaimedDelivery[],
  ): Promise<ReadonlyMap<number, MessageContent> | undefined> {
    try {
      return await this.contents.of(deliveries);
    } catch {
      return undefined;
    }
  }

  private async sendOne(
    leased: LeasedLane,
    delivery: ClaimedDelivery,
    content: MessageContent | undefined,
  ): Promise<Result> {
    const admitted = this.admission.admit(leased);
    const listener = admitted instanceof Promise ? await admitted : admitted;
    if (!listener) return { kind: 'untouched', leased, delivery };
    const reason = content ? usedUp(delivery, listener) : 'its message was removed before it could be sent';
    if (reason === undefined) return await this.sender.send(leased, delivery, content!, listener);
    this.admission.leave(leased, undefined);
    return { kind: 'unsendable', leased, delivery, listener, reason };
  }
}

/** Attempts are counted by the claim, so only crashes of replicas lead beyond the last one of the schedule. */
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
