import { Inject, Injectable, Optional } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import type { Caller } from '../http/access.ts';
import { Problem, retryAfter } from '../http/problems.ts';
import type { Topic } from '../topics/topic.ts';
import { Ingest } from './ingest.ts';
import { IngestMetrics } from './ingest-metrics.ts';
import { isRefusal, type Outcome, type Refusal } from './message-acceptor.ts';
import { MESSAGE_ROUTER, type MessageRouter } from './message-router.ts';
import { type NewMessage, sourceOfCaller } from './new-message.ts';
import type { AcceptedMessage } from './post-messages.openapi.ts';
import type { PostedMessages, readPost } from './read-request.ts';

/** A POST of messages, from the request to the response. */
@Injectable()
export class PostMessages {
  private readonly rateLimit: RateLimit;
  private readonly target: Pick<MessageRouter, 'post'>;

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    ingest: Ingest,
    private readonly metrics: IngestMetrics,
    @Optional() @Inject(MESSAGE_ROUTER) private readonly router: MessageRouter | undefined,
  ) {
    this.target = router ?? ingest;
    this.rateLimit = new RateLimit(settings.apiKeyRateLimit);
  }

  /**
   * Reads the messages, has them stored, and responds. Messages that are posted to a topic need no type, and may have only
   * one that the topic takes.
   */
  async reply(
    request: FastifyRequest,
    reply: FastifyReply,
    read: typeof readPost,
    to?: { readonly topic: Topic; readonly takes: (type: string) => boolean },
  ): Promise<void> {
    const { headers, body, caller } = request;
    const posted = read({
      headers,
      body,
      caller: caller.name,
      maxBytes: this.settings.bodyLimit,
      defaultType: to?.topic.name,
    });
    refuseForeign(posted, caller);
    if (to) refuseOtherTypes(posted, to);
    this.rateLimit.take(caller.name, posted.messages.length);
    const outcomes = await this.target.post(posted);
    refuseConflicts(outcomes, posted);
    // The router counts for each cell.
    if (!this.router) this.metrics.count(outcomes);
    if (posted.batch) replyBatch(outcomes, reply);
    else replyOne(outcomes[0]!, reply);
  }
}

function replyOne(outcome: Outcome, reply: FastifyReply): void {
  void reply
    .code(outcome.kind === 'accepted' ? 202 : 200)
    .header('location', `/v1/messages/${encodeURIComponent(outcome.id)}`)
    .send(replyBody(outcome));
}

function replyBatch(outcomes: readonly Outcome[], reply: FastifyReply): void {
  void reply.code(202).send({ messages: outcomes.map(replyBody) });
}

function replyBody(outcome: Outcome): AcceptedMessage {
  // A refusal has been thrown before.
  const { kind, id, status, gap, gapFilled } = outcome as Exclude<Outcome, Refusal>;
  return {
    id,
    status,
    ...(kind === 'duplicate' ? { duplicate: true } : {}),
    ...(gap ? { gap } : {}),
    ...(gapFilled ? { gapFilled } : {}),
  };
}

/**
 * Throws a 403 that lists every message of a source or key that the caller's api key is not bound to. Called before anything
 * else: a refused message uses up neither its sequence number nor its id.
 */
export function refuseForeign({ messages, batch, pointer }: PostedMessages, caller: Caller): void {
  if (caller.sources === undefined && caller.keys === undefined) return;
  const errors = messages.flatMap((message, index) =>
    foreignParts(message, caller).map((detail) => ({ pointer: batch ? `${pointer}/${index}` : '', detail })),
  );
  if (errors.length === 0) return;
  const rest = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
  throw new Problem('foreign', `A message ${errors[0]!.detail}${rest}. ${boundTo(caller)}`, { errors });
}

/** A message without a key has its id as key everywhere (order, read models, listeners), so its id is checked. */
function foreignParts({ source, key, keyless }: NewMessage, caller: Caller): string[] {
  const parts: string[] = [];
  if (source !== sourceOfCaller(caller.name) && !beginsWithOne(source, caller.sources))
    parts.push('is of a source that this api key is not bound to');
  if (!beginsWithOne(key, caller.keys))
    parts.push(
      keyless
        ? 'has no key, so its id is its key, and this api key is not bound to that'
        : 'is of a key that this api key is not bound to',
    );
  return parts;
}

function beginsWithOne(text: string, prefixes: readonly string[] | undefined): boolean {
  return prefixes === undefined || prefixes.some((prefix) => text.startsWith(prefix));
}

function boundTo({ sources, keys }: Caller): string {
  const parts = [
    ...(sources ? [`sources that begin with ${quoted(sources)}`] : []),
    ...(keys ? [`keys that begin with ${quoted(keys)}`] : []),
  ];
  return `It is bound to ${parts.join(' and ')}.`;
}

function quoted(prefixes: readonly string[]): string {
  return prefixes.map((prefix) => `"${prefix}"`).join(' or ');
}

/** Without this, the message would be stored and never be in the topic that it was posted to. */
function refuseOtherTypes(
  { messages, batch, pointer }: PostedMessages,
  { topic, takes }: { readonly topic: Topic; readonly takes: (type: string) => boolean },
): void {
  const errors = messages.flatMap(({ type }, index) =>
    takes(type)
      ? []
      : [
          {
            pointer: `${batch ? `${pointer}/${index}` : ''}/type`,
            detail: `"${type}" is not a type of this topic`,
          },
        ],
  );
  if (errors.length === 0) return;
  throw new Problem('invalid', `The topic ${topic.name} takes only the types ${topic.types.join(', ')}.`, {
    errors,
  });
}

function refuseConflicts(outcomes: readonly Outcome[], { batch, pointer }: PostedMessages): void {
  const errors = outcomes.flatMap((outcome, index) =>
    isRefusal(outcome) ? [{ pointer: batch ? `${pointer}/${index}` : '', detail: reasonOf(outcome) }] : [],
  );
  if (errors.length) throw new Problem('conflict', errors[0]!.detail, { errors });
}

function reasonOf(outcome: Outcome): string {
  return outcome.kind === 'too-many-gaps'
    ? 'This producer skipped too many numbers; continue with a new Producer-Id.'
    : `The id "${outcome.id}" is taken by a message with other content.`;
}

interface Bucket {
  tokens: number;
  filledAtMs: number;
}

/** API_KEY_RATE_LIMIT: a token bucket per api key, on this replica. */
class RateLimit {
  private readonly buckets = new Map<string, Bucket>();

  constructor(private readonly perSecond: number) {}

  /** A batch larger than a full bucket is accepted when the bucket is full, and leaves it negative. */
  take(caller: string, messages: number): void {
    if (this.perSecond === 0) return;
    const bucket = this.filled(caller);
    const needed = Math.min(messages, this.perSecond);
    if (bucket.tokens < needed) {
      const seconds = (needed - bucket.tokens) / this.perSecond;
      throw new Problem(
        'too-many-requests',
        `This key may post ${this.perSecond} messages per second.`,
        retryAfter(seconds),
      );
    }
    bucket.tokens -= messages;
  }

  private filled(caller: string): Bucket {
    const now = performance.now();
    const bucket = this.buckets.get(caller) ?? { tokens: this.perSecond, filledAtMs: now };
    const gained = ((now - bucket.filledAtMs) / 1000) * this.perSecond;
    bucket.tokens = Math.min(this.perSecond, bucket.tokens + gained);
    bucket.filledAtMs = now;
    this.buckets.set(caller, bucket);
    return bucket;
  }
}
