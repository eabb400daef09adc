import { Inject, Injectable } from '@nestjs/common';
import { Senders } from '../../brokers/senders.ts';
import type { Listener } from '../../listeners/listener.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import type { CallResult } from '../../webhooks/call-result.ts';
import type { Delivery } from '../../webhooks/webhook-request.ts';
import { Admission } from '../admit/admission.ts';
import { Draining } from '../admit/draining.ts';
import type { LeasedLane } from '../claim/leased-lane.ts';
import type { ClaimedDelivery, MessageContent } from '../claim/outbox-queue.ts';
import { inParts, MessageContents } from '../fan-out/message-contents.ts';
import { DeliveryMetrics } from '../health/delivery-metrics.ts';
import { ListenerPolicy } from '../health/listener-policy.ts';
import type { Result, SentDelivery } from '../settle/delivery-result.ts';
import { ResultWriter } from '../settle/result-writer.ts';
import { type Outcome, outcomeOf } from './outcome.ts';

/**
 * Sends the claimed deliveries of one lane: load → admit → send → decide what the result means → hand it to the writer. One after the other, so
 * the deliveries of a key keep their order and a lane has one delivery in flight. When a delivery has to wait, the later
 * ones of its key wait behind it; other keys continue.
 */
@Injectable()
export class LaneSender {
  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly contents: MessageContents,
    private readonly admission: Admission,
    private readonly senders: Senders,
    private readonly policy: ListenerPolicy,
    private readonly results: ResultWriter,
    private readonly draining: Draining,
    private readonly metrics: DeliveryMetrics,
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
    if (reason === undefined) return await this.send(leased, delivery, content!, listener);
    this.admission.leave(leased, undefined);
    return { kind: 'unsendable', leased, delivery, listener, reason };
  }

  /** Decides what the result means for the delivery, and for its listener as a whole. */
  private async send(
    leased: LeasedLane,
    delivery: ClaimedDelivery,
    content: MessageContent,
    listener: Listener,
  ): Promise<SentDelivery> {
    const callResult = await this.call(delivery, content, listener);
    const atMs = performance.now();
    const outcome = outcomeOf(callResult, listener, { attempt: delivery.attempt, ageMs: delivery.age_ms });
    this.admission.leave(leased, outcome);
    const recording = this.policy.record({ leased, delivery, listener, callResult, outcome });
    if (recording !== undefined) await recording;
    return { kind: 'sent', leased, delivery, listener, callResult, outcome, atMs };
  }

  /** Never throws: an error here is a local one, and must not stop the other deliveries. */
  private call(delivery: ClaimedDelivery, content: MessageContent, listener: Listener): Promise<CallResult> {
    try {
      const result = this.senders.send(deliveryOf(delivery, content), listener, {
        timeoutMs: this.admission.callMs(listener),
        signal: this.draining.ending,
      });
      return this.metrics.calling(result);
    } catch (error) {
      this.log.error(
        { event: 'outbox.not-sent', listener: listener.name, delivery: delivery.id, error },
        'the request of a delivery could not be built',
      );
      const detail = 'the request could not be built';
      return Promise.resolve({ kind: 'failed', reason: 'local', detail, durationMs: 0 });
    }
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

function deliveryOf(delivery: ClaimedDelivery, content: MessageContent): Delivery {
  return {
    deliveryId: delivery.id,
    messageId: content.id,
    source: content.source,
    type: content.type,
    key: content.key,
    sequence: delivery.sequence,
    occurredAt: content.occurred_at ?? content.received_at,
    payload: content.payload,
    traceparent: content.headers?.traceparent,
    attempt: delivery.attempt,
  };
}
