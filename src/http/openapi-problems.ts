import type { OpenAPIObject } from '@nestjs/swagger';
import { PROBLEM_MEDIA_TYPE, PROBLEMS, type ProblemName, problemType } from './problems.ts';
import { choice, INTEGER, list, named, object, type Schema, TEXT } from './schema.ts';

type PathItem = OpenAPIObject['paths'][string];
type Operation = NonNullable<PathItem['get']> & { 'x-scope'?: string };
type Header = { readonly description: string; readonly required?: boolean; readonly schema: Schema };
type Response = {
  description: string;
  content?: Record<string, unknown>;
  headers?: Record<string, Header>;
};

const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const;

const PROBLEM = named(
  'Problem',
  object(
    {
      type: choice((Object.keys(PROBLEMS) as ProblemName[]).map(problemType)),
      title: TEXT,
      status: INTEGER,
      detail: TEXT,
    },
    {
      errors: list(
        object({
          pointer: {
            ...TEXT,
            description: 'JSON pointer (RFC 6901) into the body; empty for the body itself.',
          },
          detail: TEXT,
        }),
      ),
    },
  ),
);

const CONTENT = { [PROBLEM_MEDIA_TYPE]: { schema: PROBLEM } };
const RETRY_AFTER = { description: 'With 429 and 503: when to retry, in seconds.', schema: INTEGER };
const CHALLENGE = { description: '`Bearer`.', required: true, schema: TEXT };
const ALLOW = { description: 'With 405: the methods of the path.', schema: TEXT };

/**
 * Adds the problems that any operation can return, so that no controller repeats them. Decorators cannot do this: once a
 * response is declared, Swagger leaves out the success response it would have described by itself.
 */
export function withProblems(document: OpenAPIObject): OpenAPIObject {
  for (const path of Object.values(document.paths)) {
    for (const method of METHODS) if (path[method]) addProblems(path[method] as Operation);
  }
  return document;
}

function addProblems(operation: Operation): void {
  const responses = operation.responses as Record<string, Response>;
  const scope = operation['x-scope'];
  if (scope) {
    responses['401'] ??= { description: 'Missing or invalid API key.' };
    responses['403'] ??= { description: `The API key lacks the scope \`${scope}\`.` };
  }
  responses.default ??= { description: 'Any other problem.' };
  for (const [status, response] of Object.entries(responses)) {
    if (status !== 'default' && Number(status) < 400) continue;
    // Health checks have a body of their own; any of them can be a problem, too.
    response.content = { ...response.content, ...CONTENT };
    const headers = headersOf(status);
    if (headers) response.headers = { ...response.headers, ...headers };
  }
}

function headersOf(status: string): Record<string, Header> | undefined {
  if (status === '401') return { 'WWW-Authenticate': CHALLENGE };
  if (status === '429' || status === '503') return { 'Retry-After': RETRY_AFTER };
  return status === 'default' ? { 'Retry-After': RETRY_AFTER, Allow: ALLOW } : undefined;
}
