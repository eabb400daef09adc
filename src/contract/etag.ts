import {
  applyDecorators,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
  UseInterceptors,
} from '@nestjs/common';
import { ApiHeader, ApiResponse } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { map } from 'rxjs';
import { etagOf, matchesEtag } from '../http/etag.ts';
import { MERGED_HEADER } from '../http/pages.ts';

/**
 * Adds an `ETag`, a hash of the response body. A request whose `If-None-Match` has that tag gets a 304 without a body. Use
 * it on every GET of a read model.
 */
export function Etag(): MethodDecorator {
  return applyDecorators(
    UseInterceptors(EtagInterceptor),
    ApiHeader({ name: 'If-None-Match', required: false, description: 'The ETag of an earlier response.' }),
    ApiResponse({ status: 304, description: 'Not modified since that response.' }),
  ) as MethodDecorator;
}

class EtagInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler) {
    const request = context.switchToHttp().getRequest<FastifyRequest>();
    const reply = context.switchToHttp().getResponse<FastifyReply>();
    return next.handle().pipe(map((body) => this.respond(body, request, reply)));
  }

  /** Sends exactly the text that was hashed. */
  private respond(body: unknown, request: FastifyRequest, reply: FastifyReply): unknown {
    const text = JSON.stringify(body);
    const etag = etagOf(text);
    reply.header('etag', etag).header('cache-control', 'private, no-cache');
    // It becomes a part of a page, which has a tag of its own.
    if (request.headers[MERGED_HEADER] !== undefined) return body;
    if (matchesEtag(request.headers['if-none-match'], etag)) {
      reply.code(304);
      return undefined;
    }
    reply.type('application/json; charset=utf-8');
    return text;
  }
}
