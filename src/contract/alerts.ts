import type { Transaction } from '../database/transaction.ts';

/** Something an operator should know about, sent as an ordinary message that listeners can subscribe to. */
export interface Alert {
  /** The last part of the message type: `urn:sluice:alerts/<name>`. */
  readonly name: string;
  /** Alerts with the same key are delivered in the order they were raised. */
  readonly key: string;
  /** The payload of the message. */
  readonly details: Readonly<Record<string, unknown>>;
}

/** The channel for operational alerts. The inbox provides the implementation. */
export abstract class Alerts {
  /**
   * Raises an alert. Pass the transaction that makes the reported change, if there is one: the change and its alert are
   * then committed together or not at all.
   */
  abstract raise(alert: Alert, tx?: Transaction): Promise<void>;
}
