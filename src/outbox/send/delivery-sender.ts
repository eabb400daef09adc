import { Inject, Injectable } from '@nestjs/common';
import { maxCallMs } from '../../config/max-call.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import type { Listener } from '../../listeners/listener.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import type { Answer } from '../../webhooks/answer.ts';
import { webhookRequest } from '../../webhooks/webhook-request.ts';
import { WebhookSender } from '../../webhooks/webhook-sender.ts';
import { Draining } from '../admit/draining.ts';
import type { ClaimedDelivery, MessageContent } from '../claim/claimed-delivery.ts';
import { DeliveryMetrics } from '../health/delivery-metrics.ts';

/** Carries one delivery to its listener. */
@Injectable()
export class DeliverySender {
  private readonly maxMs: number;

  constructor(
    @Inject(SETTINGS_TOKEN) settings: Settings,
    @Inject(LOG) private readonly log: Log,
    private readonly sender: WebhookSender,
    private readonly draining: Draining,
    private readonly metrics: DeliveryMetrics,
  ) {
    this.maxMs = maxCallMs(settings.outboxLease);
  }

  /** Never longer than the lease of its lane covers, even if a replica with a longer lease took the definition. */
  callMs(listener: Listener): number {
    return Math.min(listener.timeoutMs, this.maxMs);
  }

  /** Never throws: what goes wrong here is a fault of ours, and no reason to stop with the others. */
  send(delivery: ClaimedDelivery, content: MessageContent, listener: Listener): Promise<Answer> {
    try {
      const answer = this.sender.send(requestOf(delivery, content, listener), {
        timeoutMs: this.callMs(listener),
        signal: this.draining.ending,
      });
      return this.metrics.calling(answer);
    } catch (error) {
      this.log.error(
        { event: 'outbox.not-sent', listener: listener.name, delivery: delivery.id, error },
        'a delivery could not even be sent',
      );
      const detail = 'it could not be made into a request';
      return Promise.resolve({ kind: 'failed', fault: 'ours', detail, durationMs: 0 });
    }
  }
}

function requestOf(delivery: ClaimedDelivery, content: MessageContent, listener: Listener) {
  return webhookRequest(
    {
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
    },
    listener,
  );
}
