/** The result of one call. Once the headers have arrived it is a response, whatever happens to the body. */
export type HttpResult =
  | {
      readonly kind: 'responded';
      readonly status: number;
      /** From `Retry-After`: 0 to 24 hours. */
      readonly retryAfterMs?: number;
      /** The first 1 KiB of the body as text. */
      readonly excerpt: string;
      readonly durationMs: number;
    }
  | {
      readonly kind: 'failed';
      readonly reason: FailureReason;
      /** For people; never contains the URL's path, which is often a secret. */
      readonly detail: string;
      readonly durationMs: number;
      /** Only of a broker: there was no connection, so the message cannot have been stored. */
      readonly unsent?: true;
    };

/** The result of one delivery. */
export type CallResult =
  | HttpResult
  /** A broker has stored the message; `detail` says where. */
  | { readonly kind: 'acknowledged'; readonly detail: string; readonly durationMs: number };

/**
 * `timeout` the deadline passed before the headers · `dns` the name does not exist · `refused` the port is closed, or the
 * host unreachable · `reset` the connection ended too early · `tls` no trustworthy connection · `egress` the address must
 * not be called · `protocol` not HTTP, or over a limit · `local` an error of this machine, not of the receiver. Of brokers only:
 * `auth` wrong credentials or missing permissions · `setup` a stream, exchange or topic is missing or not as it must be ·
 * `rejected` the broker responded, and does not take this message.
 */
export type FailureReason =
  | ('timeout' | 'dns' | 'refused' | 'reset' | 'tls' | 'egress' | 'protocol' | 'local')
  | ('auth' | 'setup' | 'rejected');
