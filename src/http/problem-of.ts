import { HttpException } from '@nestjs/common';
import { codeOf, isConflictOfTransactions, isDatabaseAway } from '../database/faults.ts';
import { Problem, type ProblemName, retryAfter } from './problems.ts';

/** What Fastify refuses by itself, and the problem it is. */
const FASTIFY_FAULTS: Record<string, [ProblemName, string]> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported-media-type', 'Send application/json.'],
  FST_ERR_CTP_EMPTY_TYPE: ['unsupported-media-type', 'Send application/json.'],
  FST_ERR_CTP_BODY_TOO_LARGE: ['too-large', 'The body is larger than this route takes.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['bad-request', 'The body does not have the announced length.'],
  FST_ERR_CTP_EMPTY_JSON_BODY: ['malformed-json', 'The body is empty.'],
  FST_ERR_BAD_URL: ['bad-request', 'The path is not a valid URL.'],
  FST_ERR_ASYNC_CONSTRAINT: ['bad-request', 'The request cannot be routed.'],
  FST_ERR_MAX_PARAM_LENGTH: ['bad-request', 'A part of the path is too long.'],
  HPE_HEADER_OVERFLOW: ['header-too-large', 'Send fewer or shorter headers.'],
  ERR_HTTP_REQUEST_TIMEOUT: ['request-timeout', 'Send the whole request at once.'],
};

/** PostgreSQL's code for the one character that a valid request can hold and no text in it can. */
const NUL_IN_TEXT = '22021';
/** Its codes for a value that is out of range, or no time, or no number. */
const UNFIT_VALUES = ['22003', '22007', '22008', '22P02'];
const STATEMENT_TIMEOUT = '57014';

const FAULTS_OF_OURS: readonly ProblemName[] = ['internal', 'database-away'];

/** Anything thrown → what the caller is told. Only what we chose to say is said; the rest is `internal`. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  const known = FASTIFY_FAULTS[codeOf(error) ?? ''];
  if (known) return new Problem(...known);
  if (codeOf(error) === NUL_IN_TEXT) return new Problem('invalid', 'A text holds NUL, which is not allowed.');
  if (isUnfitValue(error)) return new Problem('invalid', 'A value is out of range.');
  if (isDatabaseAway(error)) {
    return new Problem('database-away', 'Try again; nothing is known to be stored.', retryAfter(1));
  }
  if (isConflictOfTransactions(error) || codeOf(error) === STATEMENT_TIMEOUT) {
    return new Problem('overloaded', 'The database is too busy; try again.', retryAfter(1));
  }
  if (error instanceof HttpException) return problemOfNest(error);
  return new Problem('internal', 'The fault is logged under the request id of this answer.');
}

/** Somebody has to look at it; everything else is the caller's to solve. */
export function isFaultOfOurs({ problem }: Problem, error: unknown): boolean {
  return FAULTS_OF_OURS.includes(problem) || isUnfitValue(error);
}

/** The caller's most likely; but it was ours to refuse. */
function isUnfitValue(error: unknown): boolean {
  return UNFIT_VALUES.includes(codeOf(error) ?? '');
}

function problemOfNest(error: HttpException): Problem {
  const status = error.getStatus();
  if (status === 404) return new Problem('not-found', 'No route has this path.');
  if (status === 413) return new Problem('too-large', 'The body is larger than this route takes.');
  if (status === 415) return new Problem('unsupported-media-type', 'Send application/json.');
  if (status < 500) return new Problem('bad-request', 'The request was refused.');
  return new Problem('internal', 'The fault is logged under the request id of this answer.');
}
