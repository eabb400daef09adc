import { Injectable } from '@nestjs/common';
import { isAssertionFailure } from '../../database/errors.ts';
import { Reads } from '../../database/reads.ts';
import type { Transaction } from '../../database/transaction.ts';
import { GroupViews } from '../../groups/group-views.ts';
import type { Sized } from '../../http/page-bytes.ts';
import type { LaneRow, PiggybackLease } from '../../lanes/lane-queue-types.ts';
import { Piggyback } from '../../lanes/piggyback.ts';
import { keepsOrder, type Listener, laneOfDelivery } from '../../listeners/listener.ts';
import { Listeners } from '../../listeners/listeners.ts';
import { bytesOf, EntryWriter } from '../../topics/entry-writer.ts';
import { Topics } from '../../topics/topics.ts';
import type { MessageContent } from '../claim/outbox-queue.ts';
import type { PendingDelivery } from './deliveries.openapi.ts';
import { type DeliveryRow, deliveryView } from './delivery-view.ts';
import { PENDING_DELIVERIES, READ_DELIVERIES, WRITE_DELIVERIES } from './fan-out.sql.ts';
import { MessageContents } from './message-contents.ts';
import { explainPending, type PendingRow } from './pending-delivery.ts';

/** Message → one delivery per listener and one entry per topic, written with the transaction that applies the message. */
@Injectable()
export class FanOut {
  constructor(
    private readonly listeners: Listeners,
    private readonly topics: Topics,
    private readonly contents: MessageContents,
    private readonly reads: Reads,
    private readonly piggyback: Piggyback,
    private readonly groups: GroupViews,
  ) {}

  writerFor(messages: readonly FanOutMessage[]): DeliveryWriter {
    return new DeliveryWriter(messages, this.listeners, this.contents, this.piggyback);
  }

  entriesFor(messages: readonly FanOutMessage[]): EntryWriter {
    return new EntryWriter(messages, this.topics);
  }

  /** After ListenersChanged or TopicsChanged; then the batch can be retried. */
  async refreshTargets(): Promise<void> {
    await Promise.all([this.listeners.refresh(), this.topics.refresh()]);
  }

  /** The pending deliveries of a message, and what each waits for. */
  async pendingOf(position: number): Promise<PendingDelivery[]> {
    return (await this.reads.query<PendingRow>(PENDING_DELIVERIES, [position])).map(explainPending);
  }

  /** The status of a message in every consumer group that reads it. */
  groupsOf(position: number) {
    return this.groups.ofMessage(position);
  }

  /** The deliveries of a message with their attempts, as many as fit into a page, and the number of all. */
  async deliveriesOf(position: number) {
    const rows = await this.reads.query<DeliveryRow & Sized & { total_deliveries: number }>(READ_DELIVERIES, [
      position,
    ]);
    return {
      deliveries: rows.filter(({ fits }) => fits).map(deliveryView),
      deliveriesTotal: rows[0]?.total_deliveries ?? 0,
    };
  }
}

/** A handled message, with what its deliveries need. */
export interface FanOutMessage extends MessageContent {
  readonly lane: number;
  /** It was posted without a key. */
  readonly keyless: boolean;
}

/** A listener was changed, and this replica does not know the change yet. */
export class ListenersChanged extends Error {}

/** Writes the deliveries of a batch of messages in its transaction: `write`, `issuePiggyback`, then `committed` or `failed`. */
export class DeliveryWriter {
  private pending: readonly FanOutMessage[] = [];
  private lanes: ReadonlySet<number> = new Set();
  private lease: PiggybackLease<LaneRow> | undefined;
  private results: unknown[][] = [];

  constructor(
    private readonly messages: readonly FanOutMessage[],
    private readonly listeners: Listeners,
    private readonly contents: MessageContents,
    private readonly piggyback: Piggyback,
  ) {}

  /**
   * A message that was posted after a listener was defined goes to it, whichever replica handles the message: the first
   * promise rejects with ListenersChanged if this replica does not know all listeners. Returned one by one: combined, the
   * second one's failure, which follows from the first, might be reported instead of it.
   */
  write(tx: Transaction): readonly Promise<void>[] {
    const current = this.listeners.stillCurrent(tx).catch((error) => {
      throw isAssertionFailure(error) ? new ListenersChanged() : error;
    });
    const of = ({ type }: FanOutMessage) => this.listeners.of(type);
    this.pending = this.messages.filter((message) => of(message).length > 0);
    const lanesOf = (message: FanOutMessage) => of(message).map((one) => laneOfDelivery(one, message));
    this.lanes = new Set(this.pending.flatMap(lanesOf));
    return [current, this.writeTo(targetsOf(this.pending, of), tx)];
  }

  /** After the statements that set the planner options, before the COMMIT. */
  async issuePiggyback(tx: Transaction): Promise<void> {
    this.lease = this.lanes.size > 0 ? this.piggyback.leaseFor('outbox', this.lanes) : undefined;
    const statements = this.lease?.statements ?? [];
    this.results = await Promise.all(statements.map(([sql, values]) => tx.query<unknown>(sql, values)));
  }

  /** After the COMMIT. Starts to send on the lanes that were leased with it; returns the others, which are to be woken. */
  committed(): ReadonlySet<number> {
    for (const message of this.pending) this.contents.remember(message);
    const taken = this.lease?.leased(this.results)?.lease.lanes;
    return taken ? new Set([...this.lanes].filter((lane) => !taken.has(lane))) : this.lanes;
  }

  failed(error: unknown): void {
    this.lease?.failed(error);
  }

  private async writeTo(targets: readonly Target[], tx: Transaction): Promise<void> {
    if (targets.length === 0) return;
    const { pending } = this;
    await tx.execute(WRITE_DELIVERIES, [
      pending.map(({ position }) => position),
      pending.map(({ key }) => key),
      pending.map(({ keyless }) => keyless),
      pending.map(({ lane }) => lane),
      pending.map(({ type }) => type),
      pending.map(bytesOf),
      targets.map(({ type }) => type),
      targets.map(({ listener }) => listener.number),
      targets.map(({ listener }) => listener.lanes),
      targets.map(({ listener }) => keepsOrder(listener)),
    ]);
  }
}

interface Target {
  readonly type: string;
  readonly listener: Listener;
}

function targetsOf(
  pending: readonly FanOutMessage[],
  of: (message: FanOutMessage) => readonly Listener[],
): Target[] {
  const firstOfTypes = new Map(pending.map((message) => [message.type, message]));
  return [...firstOfTypes].flatMap(([type, message]) => of(message).map((listener) => ({ type, listener })));
}
