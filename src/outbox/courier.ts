import { Inject, Injectable } from '@nestjs/common';
import { longestCallMs } from '../config/longest-call.ts';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import type { Listener } from '../listeners/listener.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import type { ClaimedDelivery, MessageContent } from './claimed-delivery.ts';
import { DeliveryMetrics } from './delivery-metrics.ts';
import { Draining } from './draining.ts';
import type { Answer } from './sending/answer.ts';
import { webhookRequest } from './sending/webhook-request.ts';
import { WebhookSender } from './sending/webhook-sender.ts';

/** Carries one delivery to its listener. */
@Injectable()
export class Courier {
  private readonly longestMs: number;

  constructor(
    @Inject(SETTINGS_TOKEN) settings: Settings,
    @Inject(LOG) private readonly log: Log,
    private readonly sender: WebhookSender,
    private readonly draining: Draining,
    private readonly metrics: DeliveryMetrics,
  ) {
    this.longestMs = longestCallMs(settings.outboxLease);
  }

  /** Never longer than the lease of its lane covers, even if a replica with a longer lease took the definition. */
  callMs(listener: Listener): number {
    return Math.min(listener.timeoutMs, this.longestMs);
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
