import { Injectable } from '@nestjs/common';
import { Reads } from '../database/reads.ts';
import type { Transaction } from '../database/transaction.ts';
import { Listeners } from '../listeners/listeners.ts';
import type { MessageContent } from './claimed-delivery.ts';
import { Contents } from './contents.ts';
import { keepsOrder, laneOfDelivery } from './delivery-lane.ts';
import { type DeliveryRow, deliveryView } from './delivery-view.ts';
import { OWED_DELIVERIES, READ_DELIVERIES, WRITE_DELIVERIES } from './fan-out.sql.ts';
import { explainOwed, type OwedDelivery, type OwedRow } from './owed-delivery.ts';

/** A handled message, as far as its deliveries need it. */
export interface FannedOut extends MessageContent {
  readonly lane: number;
}

/** Another replica has changed a listener, and this one has not heard of it yet. */
export class ListenersChanged extends Error {}

/** Message → one delivery per listener, written with the transaction that applies the message. */
@Injectable()
export class FanOut {
  constructor(
    private readonly listeners: Listeners,
    private readonly contents: Contents,
    private readonly reads: Reads,
  ) {}

  /**
   * Answers with the outbox lanes written to, to be woken after the commit. What was posted after a listener was defined is
   * owed to it, whichever replica handles the message: rejects with ListenersChanged where this one has not heard of it.
   */
  async write(messages: readonly FannedOut[], tx: Transaction): Promise<ReadonlySet<number>> {
    const [isCurrent, lanes] = await Promise.all([
      this.listeners.isCurrent(tx),
      this.writeToKnown(messages, tx),
    ]);
    if (!isCurrent) throw new ListenersChanged();
    return lanes;
  }

  /** After which it can be tried again. */
  catchUp(): Promise<void> {
    return this.listeners.refresh();
  }

  private async writeToKnown(messages: readonly FannedOut[], tx: Transaction): Promise<ReadonlySet<number>> {
    const types = [...new Set(messages.map(({ type }) => type))];
    const targets = types.flatMap((type) => this.listeners.of(type).map((listener) => ({ type, listener })));
    if (targets.length === 0) return new Set();
    const wanted = messages.filter(({ type }) => targets.some((target) => target.type === type));
    await tx.execute(WRITE_DELIVERIES, [
      wanted.map(({ position }) => position),
      wanted.map(({ key }) => key),
      wanted.map(({ id }) => id),
      wanted.map(({ lane }) => lane),
      wanted.map(({ type }) => type),
      wanted.map(({ payload }) => Buffer.byteLength(payload)),
      targets.map(({ type }) => type),
      targets.map(({ listener }) => listener.number),
      targets.map(({ listener }) => listener.lanes),
      targets.map(({ listener }) => keepsOrder(listener)),
    ]);
    for (const message of wanted) this.contents.remember(message);
    const lanes = wanted.flatMap((message) =>
      this.listeners.of(message.type).map((listener) => laneOfDelivery(listener, message)),
    );
    return new Set(lanes);
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
