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

/** `ETag` from what the answer says; a caller who has that already (`If-None-Match`) gets 304 and no body. */
export function Etag(): MethodDecorator {
  return applyDecorators(
    UseInterceptors(EtagInterceptor),
    ApiHeader({ name: 'If-None-Match', required: false, description: 'The ETag of an earlier answer.' }),
    ApiResponse({ status: 304, description: 'Nothing has changed since that answer.' }),
  ) as MethodDecorator;
}

class EtagInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler) {
    const request = context.switchToHttp().getRequest<FastifyRequest>();
    const reply = context.switchToHttp().getResponse<FastifyReply>();
    return next.handle().pipe(map((body) => this.answer(JSON.stringify(body), request, reply)));
  }

  /** Answers with the very text that was hashed. */
  private answer(text: string, request: FastifyRequest, reply: FastifyReply): string | undefined {
    const etag = etagOf(text);
    reply.header('etag', etag).header('cache-control', 'private, no-cache');
    if (matchesEtag(request.headers['if-none-match'], etag)) {
      reply.code(304);
      return undefined;
    }
    reply.type('application/json; charset=utf-8');
    return text;
  }
}
