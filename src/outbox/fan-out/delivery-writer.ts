import { isAssertionFailure } from '../../database/faults.ts';
import type { Transaction } from '../../database/transaction.ts';
import type { LaneRow, PiggybackLease } from '../../lanes/lease-request.ts';
import type { Piggyback } from '../../lanes/piggyback.ts';
import type { Listener } from '../../listeners/listener.ts';
import type { Listeners } from '../../listeners/listeners.ts';
import type { MessageContent } from '../claim/claimed-delivery.ts';
import { keepsOrder, laneOfDelivery } from './delivery-lane.ts';
import { WRITE_DELIVERIES } from './delivery-writer.sql.ts';
import type { MessageContents } from './message-contents.ts';

/** A handled message, with what its deliveries need. */
export interface FannedOut extends MessageContent {
  readonly lane: number;
  /** It was posted without a key. */
  readonly keyless: boolean;
}

/** A listener was changed, and this replica does not know the change yet. */
export class ListenersChanged extends Error {}

/** Writes the deliveries of a batch of messages in its transaction: `write`, `issuePiggyback`, then `committed` or `failed`. */
export class DeliveryWriter {
  private pending: readonly FannedOut[] = [];
  private lanes: ReadonlySet<number> = new Set();
  private lease: PiggybackLease<LaneRow> | undefined;
  private answers: unknown[][] = [];

  constructor(
    private readonly messages: readonly FannedOut[],
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
    const of = ({ type }: FannedOut) => this.listeners.of(type);
    this.pending = this.messages.filter((message) => of(message).length > 0);
    const lanesOf = (message: FannedOut) => of(message).map((one) => laneOfDelivery(one, message));
    this.lanes = new Set(this.pending.flatMap(lanesOf));
    return [current, this.writeTo(targetsOf(this.pending, of), tx)];
  }

  /** After the statements that set the planner options, before the COMMIT. */
  async issuePiggyback(tx: Transaction): Promise<void> {
    this.lease = this.lanes.size > 0 ? this.piggyback.leaseFor('outbox', this.lanes) : undefined;
    const statements = this.lease?.statements ?? [];
    this.answers = await Promise.all(statements.map(([sql, values]) => tx.query<unknown>(sql, values)));
  }

  /** Returns the lanes to wake; those that were leased with the commit are already being sent. */
  committed(): ReadonlySet<number> {
    for (const message of this.pending) this.contents.remember(message);
    const taken = this.lease?.leased(this.answers)?.lease.lanes;
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
      pending.map(({ payload }) => Buffer.byteLength(payload)),
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

function targetsOf(pending: readonly FannedOut[], of: (message: FannedOut) => readonly Listener[]): Target[] {
  const firstOfTypes = new Map(pending.map((message) => [message.type, message]));
  return [...firstOfTypes].flatMap(([type, message]) => of(message).map((listener) => ({ type, listener })));
}
