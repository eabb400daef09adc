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

/** The state of the message that a reader waits for. */
export type MessageState = 'finished' | 'waiting' | 'dead' | 'unknown';

/** Tells when a message is settled. The engine provides the implementation. */
export abstract class MessageStates {
  /**
   * Resolves when the message is settled, or after `waitMs`. If several sources used the id, the caller's own message is
   * meant.
   */
  abstract stateOf(messageId: string, caller: string, waitMs: number): Promise<MessageState>;
}

const MAX_WAIT_MS = 30_000;

/**
 * Read your own writes: with `?after=<message id>&wait=5s` the response includes at least the effect of that message,
 * whichever replica applied it. Use it on every GET of a read model.
 */
export function Fresh(): MethodDecorator {
  return applyDecorators(
    UseInterceptors(FreshInterceptor),
    ApiQuery({
      name: 'after',
      required: false,
      type: String,
      description:
        'The id of a message that must be applied before the response is sent. If several sources used the id, the caller’s own message is meant.',
    }),
    ApiQuery({
      name: 'wait',
      required: false,
      schema: { type: 'string', default: '5s' },
      description: 'How long to wait for that message, up to 30s. Only with `after`.',
    }),
    ApiResponse({
      status: 503,
      description: '`read-model-behind`: the message was not applied within `wait`.',
    }),
    ApiResponse({ status: 409, description: '`message-dead`: the message will not be applied.' }),
    ApiResponse({
      status: 404,
      description: 'No resource has this id, or no message has the id in `after`.',
    }),
  ) as MethodDecorator;
}

@Injectable()
export class FreshInterceptor implements NestInterceptor {
  constructor(private readonly messages: MessageStates) {}

  async intercept(context: ExecutionContext, next: CallHandler) {
    const request = context.switchToHttp().getRequest<FastifyRequest>();
    const { after, wait, ...rest } = (request.query ?? {}) as Record<string, unknown>;
    // A public route has no caller.
    const caller = request.caller?.name ?? '';
    if (after !== undefined || wait !== undefined) await this.waitFor(caller, after, wait);
    // The controller rejects parameters it does not know, and it does not know these two.
    request.query = rest;
    return next.handle();
  }

  private async waitFor(caller: string, after: unknown, wait: unknown = '5s'): Promise<void> {
    if (after === undefined) throw new Problem('invalid', 'wait requires after=<message id>.');
    if (typeof after !== 'string' || typeof wait !== 'string')
      throw new Problem('invalid', 'after and wait must each be given once.');
    const waitMs = parseDuration(wait);
    if (waitMs === undefined || waitMs > MAX_WAIT_MS)
      throw new Problem('invalid', 'wait must be a duration of at most 30s, such as 5s.');
    const state = await this.messages.stateOf(after, caller, waitMs);
    if (state === 'unknown') throw new Problem('not-found', 'No message has the id given in after.');
    if (state === 'dead')
      throw new Problem('message-dead', 'The message given in after ended without being applied.');
    if (state === 'waiting')
      throw new Problem(
        'read-model-behind',
        `The message given in after has not been applied yet. GET /v1/messages/${encodeURIComponent(after)}/why shows what it is waiting for.`,
        retryAfter(1),
      );
  }
}
