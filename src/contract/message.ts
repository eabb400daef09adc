/** A message as a denormalizer gets it. */
export interface Message<Payload = unknown> {
  readonly id: string;
  /** Who posted it: (source, id) names a message once and for all. */
  readonly source: string;
  readonly type: string;
  /** Messages of one key are applied in the order they were accepted. */
  readonly key: string;
  readonly payload: Payload;
  readonly headers: Readonly<Record<string, string>>;
  readonly occurredAt: Date | undefined;
  readonly receivedAt: Date;
  /** Counted from 1. */
  readonly attempt: number;
}
