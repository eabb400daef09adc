import type { Outgoing } from './outgoing.ts';

export interface Range {
  readonly from: number;
  readonly to: number;
}

/** The result of one message. */
export interface Sent {
  readonly id: string;
  /** It had been stored before: by a request whose response was lost, or by a send with the same id. */
  readonly duplicate: boolean;
  /** Numbers of this producer that the service has not received. */
  readonly gap: Range | undefined;
}

/** A send that waits for its result. */
export interface Pending extends Outgoing {
  /** How often another message was found to have its number. */
  renumbered: number;
  readonly resolve: (sent: Sent) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Sends in their order. A batch has messages of one path; others are overtaken, but never one of the same key. Its limits are
 * its messages and its length; a single message is never too large for one.
 */
export class SendQueue {
  private items: Pending[] = [];

  constructor(
    private readonly maxMessages: number,
    private maxLength: number,
  ) {}

  get isEmpty(): boolean {
    return this.items.length === 0;
  }

  /** Whether nothing is gained by waiting for more. */
  get isFull(): boolean {
    return this.items.length >= this.maxMessages;
  }

  add(item: Pending): void {
    this.items.push(item);
  }

  /** They are the next to be taken, in this order. */
  putBack(items: readonly Pending[]): void {
    this.items = [...items, ...this.items];
  }

  take(): Pending[] {
    const [batch, overtaken]: [Pending[], Pending[]] = [[], []];
    const blocked = new Set<string | undefined>();
    let [seen, length] = [0, 0];
    for (; seen < this.items.length && batch.length < this.maxMessages; seen++) {
      const item = this.items[seen]!;
      if (item.path !== this.items[0]!.path || blocked.has(item.key)) {
        overtaken.push(item);
        if (item.key !== undefined) blocked.add(item.key);
        continue;
      }
      length += item.text.length + 1;
      if (batch.length > 0 && length > this.maxLength) break;
      batch.push(item);
    }
    this.items = overtaken.concat(this.items.slice(seen));
    return batch;
  }

  /** The service takes less than was thought: later batches are at most half as large as this one. */
  shrink(batch: readonly Pending[]): void {
    const length = batch.reduce((sum, { text }) => sum + text.length + 1, 0);
    this.maxLength = Math.floor(length / 2);
  }
}
