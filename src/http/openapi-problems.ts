import type { OpenAPIObject } from '@nestjs/swagger';
import { PROBLEM_MEDIA_TYPE, PROBLEMS, problemType } from './problems.ts';

type PathItem = OpenAPIObject['paths'][string];
type Operation = NonNullable<PathItem['get']> & { 'x-scope'?: string };
type Response = { description: string; content?: Record<string, unknown> };

const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const;

const PROBLEM = {
  type: 'object',
  required: ['type', 'title', 'status', 'detail'],
  properties: {
    type: {
      type: 'string',
      enum: Object.keys(PROBLEMS).map((name) => problemType(name as keyof typeof PROBLEMS)),
    },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    errors: {
      type: 'array',
      items: {
        type: 'object',
        required: ['pointer', 'detail'],
        properties: {
          pointer: {
            type: 'string',
            description: 'JSON pointer (RFC 6901) into the body; empty for the body itself.',
          },
          detail: { type: 'string' },
        },
      },
    },
  },
} as const;

const CONTENT = { [PROBLEM_MEDIA_TYPE]: { schema: { $ref: '#/components/schemas/Problem' } } };

/**
 * Adds the problems that any operation can return, so that no controller repeats them. Decorators cannot do this: once a
 * response is declared, Swagger leaves out the success response it would have described by itself.
 */
export function withProblems(document: OpenAPIObject): OpenAPIObject {
  for (const path of Object.values(document.paths)) {
    for (const method of METHODS) if (path[method]) addProblems(path[method] as Operation);
  }
  const { components } = document;
  return {
    ...document,
    components: { ...components, schemas: { ...components?.schemas, Problem: PROBLEM as never } },
  };
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
    if (status === 'default' || Number(status) >= 400) response.content ??= CONTENT;
  }
}
