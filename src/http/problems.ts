/**
 * Every error that leaves over HTTP. docs/problems.md lists exactly these, and a test compares the two.
 * A title says what is wrong in general; the `detail` of a Problem says what is wrong here.
 */
export const PROBLEMS = {
  'malformed-json': { status: 400, title: 'The body is not valid JSON' },
  'bad-request': { status: 400, title: 'The request is not valid HTTP' },
  unauthenticated: { status: 401, title: 'A valid api key is needed' },
  forbidden: { status: 403, title: 'The api key lacks the scope' },
  foreign: { status: 403, title: 'The api key is bound to other sources or keys' },
  'not-found': { status: 404, title: 'There is no such thing' },
  'method-not-allowed': { status: 405, title: 'The path exists, but not with this method' },
  'request-timeout': { status: 408, title: 'The request did not arrive in time' },
  conflict: { status: 409, title: 'It conflicts with what is there' },
  'message-dead': { status: 409, title: 'The message will not be applied' },
  'too-large': { status: 413, title: 'The body is too large' },
  'unsupported-media-type': { status: 415, title: 'This content type is not understood here' },
  invalid: { status: 422, title: 'Understood, but not valid' },
  'too-many-requests': { status: 429, title: 'Too many requests for this api key' },
  'header-too-large': { status: 431, title: 'The request headers are too large' },
  internal: { status: 500, title: 'A fault of the service' },
  overloaded: { status: 503, title: 'The service cannot take more at the moment' },
  'database-away': { status: 503, title: 'The database cannot be reached at the moment' },
  'read-model-behind': { status: 503, title: 'The read model does not show the message yet' },
  stopping: { status: 503, title: 'This replica is stopping' },
} as const satisfies Record<string, { status: number; title: string }>;

export type ProblemName = keyof typeof PROBLEMS;

export interface FieldFault {
  /** RFC 6901 pointer into the body; '' is the body itself. */
  readonly pointer: string;
  readonly detail: string;
}

/** Thrown anywhere below a controller; what the caller gets is exactly this and nothing else. */
export class Problem extends Error {
  constructor(
    readonly problem: ProblemName,
    readonly detail: string,
    readonly more: {
      readonly errors?: readonly FieldFault[];
      readonly headers?: Readonly<Record<string, string>>;
    } = {},
  ) {
    super(detail);
    this.name = 'Problem';
  }

  get status(): number {
    return PROBLEMS[this.problem].status;
  }

  /** The `application/problem+json` body. */
  toJSON() {
    const { status, title } = PROBLEMS[this.problem];
    const { errors } = this.more;
    return {
      type: problemType(this.problem),
      title,
      status,
      detail: this.detail,
      ...(errors ? { errors } : {}),
    };
  }
}

/** A body of 100,000 unknown fields is not answered with as many faults. */
const MAX_FAULTS = 50;

/** A body with faults in it, each of them named. */
export function faultyFields(faults: readonly FieldFault[]): Problem {
  const errors = faults.slice(0, MAX_FAULTS);
  const detail = errors.map((fault) => `${fault.pointer || 'The body'} ${fault.detail}`).join('; ');
  return new Problem('invalid', detail, { errors });
}

export function problemType(name: ProblemName): string {
  return `urn:sluice:problems/${name}`;
}

export const PROBLEM_MEDIA_TYPE = 'application/problem+json';

/** A 503 or 429 tells when to come back. */
export function retryAfter(seconds: number): { headers: Record<string, string> } {
  return { headers: { 'retry-after': String(Math.max(1, Math.ceil(seconds))) } };
}
