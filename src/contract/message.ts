/** A message as a denormalizer receives it. */
export interface Message<Payload = unknown> {
  /** The id the sender chose. It is unique per source. */
  readonly id: string;
  /** The sender. A message is identified by (source, id), and takes effect exactly once. */
  readonly source: string;
  readonly type: string;
  /** Messages of one key are applied in the order in which they were accepted. A message sent without a key has its own. */
  readonly key: string;
  readonly payload: Payload;
  readonly headers: Readonly<Record<string, string>>;
  /** When the event happened, according to the sender. */
  readonly occurredAt: Date | undefined;
  /** When the service accepted the message. */
  readonly receivedAt: Date;
  /** The number of this attempt, starting at 1. */
  readonly attempt: number;
}
