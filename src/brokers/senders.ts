import { Injectable } from '@nestjs/common';
import type { CallResult } from '../webhooks/call-result.ts';
import { type Delivery, type Recipient, webhookRequest } from '../webhooks/webhook-request.ts';
import { type SendOptions, WebhookSender } from '../webhooks/webhook-sender.ts';
import { BrokerSender } from './broker-sender.ts';
import type { SinkTarget } from './sink.ts';

/** Whom a delivery is sent to: an endpoint, or a broker if there is one. */
export type SendTarget = Recipient & SinkTarget;

/** Sends one delivery in the way of its listener. Everything before and after is the same for all of them. */
@Injectable()
export class Senders {
  constructor(
    private readonly webhooks: WebhookSender,
    private readonly brokers: BrokerSender,
  ) {}

  /** Throws if the request cannot be built; every other failure is a result. */
  send(delivery: Delivery, target: SendTarget, options: SendOptions): Promise<CallResult> {
    if (target.broker) return this.brokers.send(delivery, target, options);
    return this.webhooks.send(webhookRequest(delivery, target), options);
  }

  /** Closes the connections to brokers of all other listeners. */
  retain(listeners: readonly SinkTarget[]): void {
    this.brokers.retain(new Set(listeners.filter(({ broker }) => broker).map(({ number }) => number)));
  }
}
