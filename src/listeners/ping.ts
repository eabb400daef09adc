import { randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { BrokerSender } from '../brokers/broker-sender.ts';
import { Senders } from '../brokers/senders.ts';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import type { CallResult } from '../webhooks/call-result.ts';
import { EgressGuard } from '../webhooks/egress-guard.ts';
import type { Delivery } from '../webhooks/webhook-request.ts';
import { WebhookSender } from '../webhooks/webhook-sender.ts';
import type { Listener } from './listener.ts';
import type { PingOutcome } from './listeners.openapi.ts';

/**
 * Sends a ping now, in any state of the listener: signed and guarded like a delivery, but not stored. On a connection of its
 * own: it tries DNS and TLS as they are now, does not wait for deliveries that hang, and does not delay any.
 */
@Injectable()
export class Ping {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    @Inject(LOG) private readonly log: Log,
    private readonly guard: EgressGuard,
  ) {}

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
    const result = await this.post(ping, listener);
    const durationMs = Math.round(result.durationMs);
    if (result.kind === 'failed')
      return { delivered: false, status: null, error: `${result.reason}: ${result.detail}`, durationMs };
    if (result.kind === 'acknowledged') return { delivered: true, status: null, error: null, durationMs };
    const { status } = result;
    const delivered = status >= 200 && status < 300;
    return { delivered, status, error: delivered ? null : `responded ${status}`, durationMs };
  }

  private async post(ping: Delivery, listener: Listener): Promise<CallResult> {
    const webhooks = new WebhookSender(this.guard);
    const brokers = new BrokerSender(this.settings, this.log, this.guard);
    try {
      return await new Senders(webhooks, brokers).send(ping, listener, { timeoutMs: listener.timeoutMs });
    } finally {
      await Promise.all([webhooks.close(), brokers.close()]);
    }
  }
}
