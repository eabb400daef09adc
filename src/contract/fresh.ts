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
import type { StandbyRun } from '../database/standby-run.ts';
import { Problem, retryAfter } from '../http/problems.ts';
import { Standbys } from '../standbys/standbys.ts';

/** The state of the message that a reader waits for. */
export type MessageState = 'finished' | 'waiting' | 'dead' | 'unknown';

/** A message, and the rows of the inbox that decide its state. */
export interface MessageSeen {
  readonly state: MessageState;
  readonly rows: readonly { readonly position: number; readonly id: string }[];
}

/** Tells when a message is settled. The engine provides the implementation. */
export abstract class MessageStates {
  /**
   * Resolves when the message is settled, or after `waitMs`. If several sources used the id, the caller's own message is
   * meant.
   */
  abstract stateOf(messageId: string, caller: string, waitMs: number): Promise<MessageSeen>;

  /** Whether all of these rows are settled on this standby within `waitMs`. */
  abstract isSettledAt(standby: StandbyRun, rows: MessageSeen['rows'], waitMs: number): Promise<boolean>;
}

const MAX_WAIT_MS = 30_000;
/** What is finished on the primary is replayed by a standby within milliseconds, or the primary responds. */
const MAX_WAIT_FOR_STANDBY_MS = 50;

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
  constructor(
    private readonly messages: MessageStates,
    private readonly standbys: Standbys,
  ) {}

  async intercept(context: ExecutionContext, next: CallHandler) {
    const request = context.switchToHttp().getRequest<FastifyRequest>();
    const { after, wait, ...rest } = (request.query ?? {}) as Record<string, unknown>;
    // A public route has no caller.
    const caller = request.caller?.name ?? '';
    const seen =
      after === undefined && wait === undefined ? undefined : await this.waitFor(caller, after, wait);
    // The controller rejects parameters it does not know, and it does not know these two.
    request.query = rest;
    const standby = await this.standbyFor(request, rest, seen);
    return this.standbys.read(standby, () => next.handle());
  }

  /** What waits is only on the primary; a standby must have what the reader waited for. */
  private async standbyFor(request: FastifyRequest, query: Record<string, unknown>, seen?: MessageSeen) {
    if (query.pending !== undefined) return undefined;
    const [path] = request.url.split('?');
    const standby = this.standbys.choose(`${path} ${JSON.stringify(query)}`);
    if (!standby || !seen) return standby;
    const isThere = await this.messages.isSettledAt(standby, seen.rows, MAX_WAIT_FOR_STANDBY_MS);
    return isThere ? standby : this.standbys.isBehind();
  }

  private async waitFor(caller: string, after: unknown, wait: unknown = '5s'): Promise<MessageSeen> {
    if (after === undefined) throw new Problem('invalid', 'wait requires after=<message id>.');
    if (typeof after !== 'string' || typeof wait !== 'string')
      throw new Problem('invalid', 'after and wait must each be given once.');
    const waitMs = parseDuration(wait);
    if (waitMs === undefined || waitMs > MAX_WAIT_MS)
      throw new Problem('invalid', 'wait must be a duration of at most 30s, such as 5s.');
    const seen = await this.messages.stateOf(after, caller, waitMs);
    if (seen.state !== 'finished') throw notFinished(seen.state, after);
    return seen;
  }
}

function notFinished(state: Exclude<MessageState, 'finished'>, after: string): Problem {
  if (state === 'unknown') return new Problem('not-found', 'No message has the id given in after.');
  if (state === 'dead')
    return new Problem('message-dead', 'The message given in after ended without being applied.');
  return new Problem(
    'read-model-behind',
    `The message given in after has not been applied yet. GET /v1/messages/${encodeURIComponent(after)}/why shows what it is waiting for.`,
    retryAfter(1),
  );
}
