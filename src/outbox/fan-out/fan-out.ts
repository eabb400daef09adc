import { Injectable } from '@nestjs/common';
import { Reads } from '../../database/reads.ts';
import { Piggyback } from '../../lanes/piggyback.ts';
import { Listeners } from '../../listeners/listeners.ts';
import { type DeliveryRow, deliveryView } from './delivery-view.ts';
import { DeliveryWriter, type FannedOut } from './delivery-writer.ts';
import { PENDING_DELIVERIES, READ_DELIVERIES } from './fan-out.sql.ts';
import { MessageContents } from './message-contents.ts';
import { explainPending, type PendingDelivery, type PendingRow } from './pending-delivery.ts';

/** Message → one delivery per listener, written with the transaction that applies the message. */
@Injectable()
export class FanOut {
  constructor(
    private readonly listeners: Listeners,
    private readonly contents: MessageContents,
    private readonly reads: Reads,
    private readonly piggyback: Piggyback,
  ) {}

  writerFor(messages: readonly FannedOut[]): DeliveryWriter {
    return new DeliveryWriter(messages, this.listeners, this.contents, this.piggyback);
  }

  /** After ListenersChanged; then the batch can be retried. */
  refreshListeners(): Promise<void> {
    return this.listeners.refresh();
  }

  /** The pending deliveries of a message, and what each waits for. */
  async pendingOf(position: number): Promise<PendingDelivery[]> {
    return (await this.reads.query<PendingRow>(PENDING_DELIVERIES, [position])).map(explainPending);
  }

  /** The deliveries of a message with their attempts. */
  async deliveriesOf(position: number) {
    const rows = await this.reads.query<DeliveryRow>(READ_DELIVERIES, [position]);
    return rows.map(deliveryView);
  }
}
