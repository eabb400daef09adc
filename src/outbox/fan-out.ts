import { Injectable } from '@nestjs/common';
import { Reads } from '../database/reads.ts';
import { Piggyback } from '../lanes/offers.ts';
import { Listeners } from '../listeners/listeners.ts';
import { Contents } from './contents.ts';
import { type DeliveryRow, deliveryView } from './delivery-view.ts';
import { OWED_DELIVERIES, READ_DELIVERIES } from './fan-out.sql.ts';
import { Deliveries, type FannedOut } from './fan-out-deliveries.ts';
import { explainOwed, type OwedDelivery, type OwedRow } from './owed-delivery.ts';

/** Message → one delivery per listener, written with the transaction that applies the message. */
@Injectable()
export class FanOut {
  constructor(
    private readonly listeners: Listeners,
    private readonly contents: Contents,
    private readonly reads: Reads,
    private readonly piggyback: Piggyback,
  ) {}

  of(messages: readonly FannedOut[]): Deliveries {
    return new Deliveries(messages, this.listeners, this.contents, this.piggyback);
  }

  /** After which it can be tried again. */
  catchUp(): Promise<void> {
    return this.listeners.refresh();
  }

  /** What is still owed of a message, and what it waits for. */
  async owedOf(position: number): Promise<OwedDelivery[]> {
    return (await this.reads.query<OwedRow>(OWED_DELIVERIES, [position])).map(explainOwed);
  }

  /** The deliveries of a message with their stories. */
  async deliveriesOf(position: number) {
    const rows = await this.reads.query<DeliveryRow>(READ_DELIVERIES, [position]);
    return rows.map(deliveryView);
  }
}
