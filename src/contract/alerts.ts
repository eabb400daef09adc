import type { Transaction } from '../database/transaction.ts';

/** Something an operator should know, sent as a message that listeners can receive. */
export interface Alert {
  /** `urn:sluice:alerts/<name>` is the message's type. */
  readonly name: string;
  /** Alerts of one thing stay in order. */
  readonly key: string;
  readonly details: Readonly<Record<string, unknown>>;
}

/** E13: the channel for operational alerts; the inbox provides it. */
export abstract class Alerts {
  /** With what it tells of, where that is a transaction: neither happens without the other. */
  abstract raise(alert: Alert, tx?: Transaction): Promise<void>;
}
