import type { Duration } from './duration.ts';

/** One fault of a request: where, as an RFC 6901 pointer into the body, and what. */
export interface FieldError {
  readonly pointer: string;
  readonly detail: string;
}

/** What `application/problem+json` has. */
export interface Problem {
  /** Of the service, `urn:sluice:problems/…`; of this library, `urn:sluice:client/…`. */
  readonly type: string;
  readonly title: string;
  readonly detail: string;
  /** Undefined: there was no response. */
  readonly status?: number | undefined;
  readonly errors?: readonly FieldError[] | undefined;
}

export type ClientProblem =
  | 'unreachable'
  | 'timeout'
  | 'bad-response'
  | 'closed'
  | 'number-taken'
  | 'partition-lost'
  | 'lease-lost'
  | 'unexpected-topic'
  | 'handler-timeout';

/** Every failure that this library reports. */
export class SluiceError extends Error implements Problem {
  override readonly name = 'SluiceError';
  readonly type: string;
  readonly title: string;
  readonly detail: string;
  readonly status: number | undefined;
  readonly errors: readonly FieldError[];
  /** Milliseconds that the service asked to wait. */
  readonly retryAfter: number | undefined;

  constructor(problem: Problem, options: { cause?: unknown; retryAfter?: number | undefined } = {}) {
    super(
      `${problem.title}: ${problem.detail}`,
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.type = problem.type;
    this.title = problem.title;
    this.detail = problem.detail;
    this.status = problem.status;
    this.errors = problem.errors ?? [];
    this.retryAfter = options.retryAfter;
  }

  /** Whether the same request may succeed later: no response, 408, 429, 5xx. */
  get retryable(): boolean {
    if (this.status !== undefined) return this.status === 408 || this.status === 429 || this.status >= 500;
    return ['unreachable', 'timeout', 'bad-response'].some((name) => this.is(name));
  }

  /** By the last part of the type: `error.is('not-found')`. */
  is(name: string): boolean {
    return this.type === `urn:sluice:problems/${name}` || this.type === `urn:sluice:client/${name}`;
  }
}

export function clientError(
  name: ClientProblem,
  title: string,
  detail: string,
  more: { cause?: unknown; status?: number | undefined } = {},
): SluiceError {
  return new SluiceError({ type: `urn:sluice:client/${name}`, title, detail, status: more.status }, more);
}

/** Thrown by a handler: the message is not retried; it becomes a dead letter with this reason. */
export class Reject extends Error {
  override readonly name = 'Reject';

  constructor(readonly reason: string) {
    super(reason);
  }
}

/** Thrown by a handler of a queue: the message is handed out again after this time instead of by the listener's schedule. */
export class Retry extends Error {
  override readonly name = 'Retry';

  constructor(
    readonly after: Duration,
    readonly reason: string = 'retry',
  ) {
    super(reason);
  }
}

/** The text that the service keeps of an error, limited. */
export function reasonOf(error: unknown): string {
  const text = textOf(error instanceof Reject || error instanceof Retry ? error.reason : error);
  return (text || 'no reason given').slice(0, MAX_REASON).replace(NOT_STORED, '\ufffd');
}

/** A handler may throw anything, also what cannot be made a text. */
export function textOf(thrown: unknown): string {
  try {
    return String(thrown);
  } catch {
    return 'an error without a text';
  }
}

const MAX_REASON = 500;
/** NUL and lone surrogates, also those that the limit cuts out of a pair. */
const NOT_STORED = /\0|\p{Surrogate}/gu;
