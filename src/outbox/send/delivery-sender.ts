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
import { DeliveryMetrics } from '../health/delivery-metrics.ts';
import { ListenerPolicy } from '../health/listener-policy.ts';
import type { SentDelivery } from '../settle/delivery-result.ts';
import { outcomeOf } from './outcome.ts';

/** Sends one admitted delivery and decides what the result means for the delivery and for its listener. */
@Injectable()
export class DeliverySender {
  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly senders: Senders,
    private readonly admission: Admission,
    private readonly policy: ListenerPolicy,
    private readonly draining: Draining,
    private readonly metrics: DeliveryMetrics,
  ) {}

  async send(
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
