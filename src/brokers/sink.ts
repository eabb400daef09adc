import type { CallFailure } from '../webhooks/call-failures.ts';
import type { EgressGuard } from '../webhooks/egress-guard.ts';
import type { Delivery } from '../webhooks/webhook-request.ts';
import type { Broker, BrokerMode, BrokerOf } from './broker.ts';
import type { BrokerCredentials, BrokerTls } from './broker-definition.ts';

/** A connection to one broker, for one listener. */
export interface Sink {
  /**
   * Resolves when the broker has acknowledged that it stored the message, with the place in words; rejects otherwise. The
   * caller has a deadline of its own; `timeoutMs` is for what the client keeps about the message.
   */
  publish(delivery: Delivery, timeoutMs: number): Promise<string>;
  /** It was closed, by either side, and publishes nothing more. */
  readonly isClosed: boolean;
  /** What waits for an acknowledgement rejects. */
  close(): Promise<void>;
}

/** Where a connection to a broker goes. */
export interface BrokerAccess {
  readonly servers: readonly string[];
  readonly tls?: BrokerTls;
  readonly credentials: BrokerCredentials;
}

export interface ConnectOptions {
  readonly guard: EgressGuard;
  readonly connectMs: number;
  /** For the broker's list of connections. */
  readonly name: string;
}

export interface SinkOptions extends ConnectOptions {
  /** OUTBOX_LEASE: a broker that recognizes duplicates must do so for longer. */
  readonly leaseMs: number;
  warn(detail: string): void;
}

/** What connects to one kind of broker. */
export interface SinkKind<Mode extends BrokerMode = BrokerMode> {
  connect(broker: BrokerOf<Mode>, options: SinkOptions): Promise<Sink>;
  /** What an error of `connect` or `publish` means; undefined: it is one of the network, or unknown. */
  failureOf(error: unknown): CallFailure | undefined;
}

/** The listener of a delivery, as far as a sink needs it. */
export interface SinkTarget {
  readonly number: number;
  readonly name: string;
  readonly revision: number;
  readonly broker?: Broker | undefined;
}

/** An error with its meaning. */
export class SinkError extends Error {
  constructor(readonly failure: CallFailure) {
    super(failure.detail);
    this.name = 'SinkError';
  }
}
