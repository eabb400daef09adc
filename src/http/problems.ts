/**
 * Every error that the HTTP API returns. docs/problems.md lists exactly these, and a test compares the two. The title is
 * the same for every problem of a type; the `detail` of a Problem describes the single case.
 */
export const PROBLEMS = {
  'malformed-json': { status: 400, title: 'Malformed JSON' },
  'bad-request': { status: 400, title: 'Bad request' },
  unauthenticated: { status: 401, title: 'Missing or invalid API key' },
  forbidden: { status: 403, title: 'Insufficient scope' },
  'cross-origin': { status: 403, title: 'Request from another site' },
  foreign: { status: 403, title: 'Source or key not allowed for this API key' },
  'not-found': { status: 404, title: 'Not found' },
  'member-unknown': { status: 404, title: 'Unknown group member' },
  'method-not-allowed': { status: 405, title: 'Method not allowed' },
  'request-timeout': { status: 408, title: 'Request timeout' },
  conflict: { status: 409, title: 'Conflict' },
  'message-dead': { status: 409, title: 'Message will not be applied' },
  'partitions-fixed': { status: 409, title: 'Number of partitions cannot change' },
  'group-active': { status: 409, title: 'Group has live members' },
  'poll-in-progress': { status: 409, title: 'Another poll of this member is in progress' },
  'offsets-expired': { status: 410, title: 'Offsets no longer kept' },
  'too-large': { status: 413, title: 'Request body too large' },
  'unsupported-media-type': { status: 415, title: 'Unsupported media type' },
  invalid: { status: 422, title: 'Validation failed' },
  'too-many-requests': { status: 429, title: 'Too many requests' },
  'header-too-large': { status: 431, title: 'Request headers too large' },
  internal: { status: 500, title: 'Internal server error' },
  overloaded: { status: 503, title: 'Service overloaded' },
  'cell-away': { status: 503, title: 'Cell unavailable' },
  'database-away': { status: 503, title: 'Database unavailable' },
  'read-model-behind': { status: 503, title: 'Read model not up to date' },
  stopping: { status: 503, title: 'Replica is shutting down' },
} as const satisfies Record<string, { status: number; title: string }>;

export type ProblemName = keyof typeof PROBLEMS;

export interface FieldError {
  /** RFC 6901 pointer into the body; '' is the body itself. */
  readonly pointer: string;
  readonly detail: string;
}

/** Throw it anywhere below a controller: the response has exactly this content and nothing else. */
export class Problem extends Error {
  constructor(
    readonly problem: ProblemName,
    readonly detail: string,
    readonly more: {
      readonly errors?: readonly FieldError[];
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

/** The response to a body with 100,000 unknown fields does not list them all. */
const MAX_ERRORS = 50;

/** The problem for a body with invalid fields; lists each of them. */
export function invalidFields(fields: readonly FieldError[]): Problem {
  const errors = fields.slice(0, MAX_ERRORS);
  const detail = errors.map((error) => `${error.pointer || 'The body'} ${error.detail}`).join('; ');
  return new Problem('invalid', detail, { errors });
}

export function problemType(name: ProblemName): string {
  return `urn:sluice:problems/${name}`;
}

export const PROBLEM_MEDIA_TYPE = 'application/problem+json';

/** The `Retry-After` header of a 503 or 429. */
export function retryAfter(seconds: number): { headers: Record<string, string> } {
  return { headers: { 'retry-after': String(Math.max(1, Math.ceil(seconds))) } };
}
