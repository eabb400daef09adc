import {
  applyDecorators,
  type CallHandler,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  SetMetadata,
  UseInterceptors,
} from '@nestjs/common';
import { ApiHeader } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { lastValueFrom, of } from 'rxjs';
import { permits } from './access.ts';
import { SharedReads } from './shared-reads.ts';

/** Of a controller that returns its body as text. */
export const JSON_TEXT = 'application/json; charset=utf-8';
const PER_CALLER = 'repeats:per-caller';

/**
 * A GET that pages repeat to stay up to date; its controller returns the body, and does not send it itself. A request with `Cache-Control: max-age=N` may get a response of this replica that
 * is up to N seconds old, also one to another caller; without it, everything is read from the database. `perCaller`: what the
 * route returns depends on who asks; that it shows an admin more is always allowed for.
 */
export function Repeatable({ perCaller = false } = {}): MethodDecorator {
  return applyDecorators(
    SetMetadata(PER_CALLER, perCaller),
    UseInterceptors(RepeatsInterceptor),
    ApiHeader({
      name: 'Cache-Control',
      required: false,
      schema: { type: 'string', example: 'max-age=5' },
      description:
        '`max-age=N`: a response may be N seconds old, and older if many such requests come (`Age` says how old it is). For requests that are repeated. Without it, everything is read from the database.',
    }),
  ) as MethodDecorator;
}

@Injectable()
export class RepeatsInterceptor implements NestInterceptor {
  constructor(private readonly reads: SharedReads) {}

  async intercept(context: ExecutionContext, next: CallHandler) {
    const request = context.switchToHttp().getRequest<FastifyRequest>();
    const maxAge = maxAgeOf(request.headers['cache-control']);
    if (maxAge === undefined) return next.handle();
    const perCaller = Reflect.getMetadata(PER_CALLER, context.getHandler()) as boolean;
    const { caller, url } = request;
    const name = `${permits(caller, 'admin')} ${perCaller ? caller.name : ''} ${url}`;
    const { value, atMs } = this.reads.get(name, maxAge * 1_000, () => lastValueFrom(next.handle()));
    const body = await value;
    const reply = context.switchToHttp().getResponse<FastifyReply>();
    reply.header('age', Math.floor((performance.now() - atMs) / 1_000));
    if (typeof body === 'string') reply.type(JSON_TEXT);
    return of(body);
  }
}

function maxAgeOf(header: string | undefined): number | undefined {
  const [, seconds] = /(?:^|[,\s])max-age=(\d{1,5})(?:$|[,\s])/.exec(header ?? '') ?? [];
  return seconds === undefined ? undefined : Number(seconds);
}
