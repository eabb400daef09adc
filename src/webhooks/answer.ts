/** What came of one attempt. Once the headers are there it is an answer, whatever happens to the body. */
export type Answer =
  | {
      readonly kind: 'answered';
      readonly status: number;
      /** From `Retry-After`: 0 to 24 hours. */
      readonly retryAfterMs?: number;
      /** The first 1 KiB of the body as text. */
      readonly excerpt: string;
      readonly durationMs: number;
    }
  | {
      readonly kind: 'failed';
      readonly fault: Fault;
      /** For people; never the URL's path, which is often its secret. */
      readonly detail: string;
      readonly durationMs: number;
    };

/**
 * `timeout` the deadline passed before the headers · `dns` the name does not exist · `refused` nobody listens, or no way
 * to the host · `reset` the connection ended too early · `tls` no trustworthy connection · `egress` the address is not
 * one we may call · `protocol` not HTTP, or more of it than we take · `ours` nothing the receiver can help.
 */
export type Fault = 'timeout' | 'dns' | 'refused' | 'reset' | 'tls' | 'egress' | 'protocol' | 'ours';
