import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import type { CallResult } from '../webhooks/call-result.ts';
import { EgressGuard } from '../webhooks/egress-guard.ts';
import { type WebhookRequest, webhookRequest } from '../webhooks/webhook-request.ts';
import { WebhookSender } from '../webhooks/webhook-sender.ts';
import type { Listener } from './listener.ts';
import type { PingOutcome } from './listeners.openapi.ts';

/**
 * Sends a ping now, in any state of the listener: signed and guarded like a delivery, but not stored. On a connection of its
 * own: it tries DNS and TLS as they are now, does not wait for deliveries that hang, and does not delay any.
 */
@Injectable()
export class Ping {
  constructor(private readonly guard: EgressGuard) {}

  async send(listener: Listener): Promise<PingOutcome> {
    const id = randomUUID();
    const ping = {
      deliveryId: id,
      attempt: 1,
      messageId: id,
      source: 'sluice',
      type: 'urn:sluice:ping',
      key: id,
      sequence: 1,
      occurredAt: new Date(),
      payload: JSON.stringify({ listener: listener.name }),
    };
    const result = await this.post(webhookRequest(ping, listener), listener.timeoutMs);
    const durationMs = Math.round(result.durationMs);
    if (result.kind === 'failed')
      return { delivered: false, status: null, error: `${result.reason}: ${result.detail}`, durationMs };
    const { status } = result;
    const delivered = status >= 200 && status < 300;
    return { delivered, status, error: delivered ? null : `answered ${status}`, durationMs };
  }

  private async post(request: WebhookRequest, timeoutMs: number): Promise<CallResult> {
    const sender = new WebhookSender(this.guard);
    try {
      return await sender.send(request, { timeoutMs });
    } finally {
      await sender.close();
    }
  }
}
