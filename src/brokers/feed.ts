import type { CallFailure } from '../webhooks/call-failures.ts';
import type { EgressGuard } from '../webhooks/egress-guard.ts';
import type { BrokerCredentials, NatsOrigin, RabbitOrigin } from './broker-definition.ts';

/** A message as a broker handed it out. */
export interface FedMessage {
  /** Names the message; the same when it is handed out again. */
  readonly place: string;
  /** The id that its publisher or the broker gave it, for a message that is no CloudEvent. */
  readonly id: string | undefined;
  /** Its subject or routing key. */
  readonly address: string;
  /** Those that say what the body is, as in an HTTP request: `content-type`, `traceparent`, `ce-…`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Where a feed continues, for a broker that does not keep it. */
export interface FeedPosition {
  /** Another value: the stream was deleted and created again. */
  readonly stream: string;
  /** Of the last message that is stored. */
  readonly sequence: number;
}

/** Reads one queue or stream, in its order, as its only reader. */
export interface Feed {
  /** Resolves with all messages that have arrived, at least one. Rejects when the connection ended. */
  next(): Promise<readonly FedMessage[]>;
  /** These messages, which `next` returned, are stored: the broker need not hand them out again. */
  stored(messages: readonly FedMessage[]): FeedPosition | undefined;
  /** Messages that are not `stored` will be handed out again. */
  close(): Promise<void>;
}

/** What is read, and as whom. */
export type FeedOrigin = Readonly<({ mode: 'nats' } & NatsOrigin) | ({ mode: 'rabbitmq' } & RabbitOrigin)> & {
  readonly credentials: BrokerCredentials;
};
export type FeedMode = FeedOrigin['mode'];
export type FeedOriginOf<Mode extends FeedMode> = Extract<FeedOrigin, { mode: Mode }>;

export interface FeedOptions {
  readonly guard: EgressGuard;
  readonly connectMs: number;
  /** Of the source. */
  readonly name: string;
  readonly position: FeedPosition | undefined;
  /** Messages are missing that were never stored, or come again; in words. */
  warn(detail: string): void;
}

/** What reads from one kind of broker. */
export interface FeedKind<Mode extends FeedMode = FeedMode> {
  open(origin: FeedOriginOf<Mode>, options: FeedOptions): Promise<Feed>;
  failureOf(error: unknown): CallFailure | undefined;
}

/** Messages that are handed out and not stored yet, at most. */
export const MAX_UNSTORED = 100;
