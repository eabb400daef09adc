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

/** A handled message, as far as its deliveries need it. */
export interface FannedOut extends MessageContent {
  readonly lane: number;
  /** It came without a key. */
  readonly keyless: boolean;
}

/** Another replica has changed a listener, and this one has not heard of it yet. */
export class ListenersChanged extends Error {}

/** What a batch of messages owes, in one transaction: write, take along; then one of committed and failed. */
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
   * What was posted after a listener was defined is owed to it, whichever replica handles the message: one rejects with
   * ListenersChanged where this one has not heard of it. One by one: together, the failure of the second because of the first
   * may be heard before it.
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

  /** After what changes the plans; before the COMMIT. */
  async issuePiggyback(tx: Transaction): Promise<void> {
    this.lease = this.lanes.size > 0 ? this.piggyback.leaseFor('outbox', this.lanes) : undefined;
    const statements = this.lease?.statements ?? [];
    this.answers = await Promise.all(statements.map(([sql, values]) => tx.query<unknown>(sql, values)));
  }

  /** Answers with the lanes to be woken: those that were taken along are being sent from. */
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
    const { pending: owed } = this;
    await tx.execute(WRITE_DELIVERIES, [
      owed.map(({ position }) => position),
      owed.map(({ key }) => key),
      owed.map(({ keyless }) => keyless),
      owed.map(({ lane }) => lane),
      owed.map(({ type }) => type),
      owed.map(({ payload }) => Buffer.byteLength(payload)),
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

function targetsOf(owed: readonly FannedOut[], of: (message: FannedOut) => readonly Listener[]): Target[] {
  const firstOfTypes = new Map(owed.map((message) => [message.type, message]));
  return [...firstOfTypes].flatMap(([type, message]) => of(message).map((listener) => ({ type, listener })));
}
