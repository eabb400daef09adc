/** A message of a pull listener. */
export interface QueueMessage<Payload = unknown> {
  readonly id: string;
  readonly type: string;
  readonly key: string;
  /** Counts per listener and key from 1. */
  readonly sequence: number;
  /** Counts from 1: how often it was handed out. */
  readonly attempt: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly timestamp: string;
  readonly payload: Payload;
}

/** Returning acknowledges; a Reject makes it a dead letter; anything else that is thrown is retried, by the listener's schedule. */
export type QueueHandler<Payload = unknown> = (
  message: QueueMessage<Payload>,
  context: { readonly signal: AbortSignal },
) => unknown;
