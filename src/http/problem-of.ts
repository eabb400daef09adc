import { HttpException } from '@nestjs/common';
import { codeOf, isConflictOfTransactions, isDatabaseAway } from '../database/errors.ts';
import { Problem, type ProblemName, retryAfter } from './problems.ts';

/** Errors that Fastify and Node's HTTP parser raise, and the problem for each. */
const KNOWN_ERROR_CODES: Record<string, [ProblemName, string]> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported-media-type', 'Content-Type must be application/json.'],
  FST_ERR_CTP_EMPTY_TYPE: ['unsupported-media-type', 'Content-Type must be application/json.'],
  FST_ERR_CTP_BODY_TOO_LARGE: ['too-large', 'The body exceeds the size limit of this route.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [
    'bad-request',
    'The length of the body does not match Content-Length.',
  ],
  FST_ERR_CTP_EMPTY_JSON_BODY: ['malformed-json', 'The body is empty.'],
  FST_ERR_BAD_URL: ['bad-request', 'The path is not a valid URL.'],
  FST_ERR_ASYNC_CONSTRAINT: ['bad-request', 'The request cannot be routed.'],
  FST_ERR_MAX_PARAM_LENGTH: ['bad-request', 'A segment of the path is too long.'],
  HPE_HEADER_OVERFLOW: ['header-too-large', 'The path and headers exceed 16 KiB.'],
  ERR_HTTP_REQUEST_TIMEOUT: ['request-timeout', 'The request was not received within REQUEST_TIMEOUT.'],
};

/** PostgreSQL's error code for NUL, which a valid request can contain and a text column cannot. */
const NUL_IN_TEXT = '22021';
/** PostgreSQL's error codes for a value that is out of range, not a time or not a number. */
const INVALID_VALUE_CODES = ['22003', '22007', '22008', '22P02'];
const STATEMENT_TIMEOUT = '57014';
/** Raised by the fence of a cell (migration 170). */
export const NOT_OF_THIS_CELL = 'SC001';

const SERVER_ERRORS: readonly ProblemName[] = ['internal', 'database-away'];

/** Maps anything thrown to a problem. The text of an unknown error never leaves the service: it becomes `internal`. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  const known = KNOWN_ERROR_CODES[codeOf(error) ?? ''];
  if (known) return new Problem(...known);
  if (codeOf(error) === NUL_IN_TEXT) return new Problem('invalid', 'NUL characters are not allowed.');
  if (isInvalidValue(error)) return new Problem('invalid', 'A value is out of range.');
  if (codeOf(error) === NOT_OF_THIS_CELL)
    return new Problem(
      'cell-away',
      'The key belongs to another cell, or is being moved. If it lasts: this replica needs the CELLS of the others.',
      retryAfter(1),
    );
  if (isDatabaseAway(error)) {
    return new Problem(
      'database-away',
      'It is not known whether the request was stored. Retry it.',
      retryAfter(1),
    );
  }
  if (isConflictOfTransactions(error) || codeOf(error) === STATEMENT_TIMEOUT) {
    return new Problem('overloaded', 'The database is too busy. Retry later.', retryAfter(1));
  }
  if (error instanceof HttpException) return problemOfNest(error);
  return new Problem(
    'internal',
    'An unexpected error occurred. It is logged with the x-request-id of this response.',
  );
}

/** Whether it is logged because an operator has to investigate it; all other problems are the caller's to solve. */
export function isServerError({ problem }: Problem, error: unknown): boolean {
  return SERVER_ERRORS.includes(problem) || isInvalidValue(error);
}

/** Most likely the caller sent a bad value; but the service should have rejected it before the database did. */
function isInvalidValue(error: unknown): boolean {
  return INVALID_VALUE_CODES.includes(codeOf(error) ?? '');
}

function problemOfNest(error: HttpException): Problem {
  const status = error.getStatus();
  if (status === 404) return new Problem('not-found', 'No route matches this path.');
  if (status === 413) return new Problem('too-large', 'The body exceeds the size limit of this route.');
  if (status === 415) return new Problem('unsupported-media-type', 'Content-Type must be application/json.');
  if (status < 500) return new Problem('bad-request', 'The request was rejected.');
  return new Problem(
    'internal',
    'An unexpected error occurred. It is logged with the x-request-id of this response.',
  );
}
