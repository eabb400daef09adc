import {
  applyDecorators,
  type CallHandler,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  UseInterceptors,
} from '@nestjs/common';
import { ApiQuery, ApiResponse } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { parseDuration } from '../config/duration.ts';
import { Problem, retryAfter } from '../http/problems.ts';

/** How the message a reader waits for stands. */
export type MessageState = 'finished' | 'waiting' | 'dead' | 'unknown';

/** Knows when messages are settled; the engine provides it. */
export abstract class MessageStates {
  /** Answers once the message is settled, or after the wait. Of several with this id that of the caller counts. */
  abstract stateOf(messageId: string, caller: string, waitMs: number): Promise<MessageState>;
}

const MAX_WAIT_MS = 30_000;

/**
 * `?after=<message id>&wait=5s`: the answer shows at least that message, whichever replica applied it. For every GET
 * of a read model.
 */
export function Fresh(): MethodDecorator {
  return applyDecorators(
    UseInterceptors(FreshInterceptor),
    ApiQuery({
      name: 'after',
      required: false,
      description:
        'Answer only once this message is applied; the caller’s own, where several sources used the id.',
    }),
    ApiQuery({
      name: 'wait',
      required: false,
      description: 'How long to wait for it, up to 30s; default 5s.',
    }),
    ApiResponse({ status: 503, description: '`read-model-behind`: not applied within the wait.' }),
    ApiResponse({ status: 409, description: '`message-dead`: it will not be applied.' }),
    ApiResponse({ status: 404, description: 'Nothing has this id, or no message the one given as after.' }),
  ) as MethodDecorator;
}

@Injectable()
export class FreshInterceptor implements NestInterceptor {
  constructor(private readonly settlements: MessageStates) {}

  async intercept(context: ExecutionContext, next: CallHandler) {
    const request = context.switchToHttp().getRequest<FastifyRequest>();
    const { after, wait, ...rest } = (request.query ?? {}) as Record<string, unknown>;
    // A public route has no caller.
    const caller = request.caller?.name ?? '';
    if (after !== undefined || wait !== undefined) await this.waitFor(caller, after, wait);
    // The controller knows its own parameters only, and refuses others.
    request.query = rest;
    return next.handle();
  }

  private async waitFor(caller: string, after: unknown, wait: unknown = '5s'): Promise<void> {
    if (after === undefined) throw new Problem('invalid', 'wait goes with after=<message id>.');
    if (typeof after !== 'string' || typeof wait !== 'string')
      throw new Problem('invalid', 'after and wait must be given once.');
    const waitMs = parseDuration(wait);
    if (waitMs === undefined || waitMs > MAX_WAIT_MS)
      throw new Problem('invalid', 'wait must be a duration up to 30s, such as 5s.');
    const standing = await this.settlements.stateOf(after, caller, waitMs);
    if (standing === 'unknown') throw new Problem('not-found', 'No message has the id given as after.');
    if (standing === 'dead')
      throw new Problem('message-dead', 'The message given as after ended without being applied.');
    if (standing === 'waiting')
      throw new Problem(
        'read-model-behind',
        `The message given as after is not applied yet; GET /v1/messages/${encodeURIComponent(after)}/why tells what it waits for.`,
        retryAfter(1),
      );
  }
}
