import { Body, Controller, HttpCode, Param, Post, Res } from '@nestjs/common';
import { ApiBody, ApiOperation, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { Allow } from '../../http/access.ts';
import { Problem } from '../../http/problems.ts';
import { onUnread } from '../../http/unread-response.ts';
import { validated } from '../../http/valid-body.ts';
import { type Listener, listenerOfLane } from '../../listeners/listener.ts';
import { ApiListener } from '../../listeners/listeners.openapi.ts';
import { Listeners } from '../../listeners/listeners.ts';
import { noListener } from '../../listeners/listeners-store.ts';
import { AcknowledgeBody, type LeaseVerdict, refuseTooMany, verdictsOf } from './acknowledgement.ts';
import type { LeaseOutcome } from './lease-store.ts';
import { type LeaseRef, parseLease } from './lease-token.ts';
import { Leases } from './leases.ts';
import { PULLED, SETTLED_LEASES, type SettledLeases } from './pull.openapi.ts';
import { pullJson } from './pull-json.ts';
import { PullMetrics } from './pull-metrics.ts';
import { PullQueues } from './pull-queues.ts';
import { limitsOf, PullBody, type PullResult } from './pull-request.ts';

const NOT_PULLED = 'The listener receives webhooks.';

@ApiTags('listeners')
@ApiListener
@Controller('v1/listeners/:name')
export class PullController {
  constructor(
    private readonly listeners: Listeners,
    private readonly queues: PullQueues,
    private readonly leases: Leases,
    private readonly metrics: PullMetrics,
  ) {}

  @Post('pull')
  @HttpCode(200)
  @Allow('consume')
  @ApiOperation({
    summary:
      'Messages of a listener with the mode `pull`, each with a lease; waits for one if there is none.',
    description:
      'Of each key one at a time, unless the listener is not `ordered`. What is not acknowledged before its lease ends is handed out again.',
  })
  @ApiBody({ type: PullBody, required: false })
  @ApiResponse({ status: 200, schema: PULLED, description: 'If `messages` is empty, `waitsFor` says why.' })
  @ApiResponse({ status: 404, description: 'No listener has this name.' })
  @ApiResponse({ status: 409, description: NOT_PULLED })
  async pull(@Param('name') name: string, @Body() body: unknown, @Res() reply: FastifyReply): Promise<void> {
    const limits = limitsOf(await validated(PullBody, body ?? {}));
    const listener = await this.pulled(name);
    const hungUp = new AbortController();
    reply.raw.once('close', () => hungUp.abort());
    const result = await this.queues.pull(listener, limits, hungUp.signal);
    this.giveBackUnsent(listener, result, reply);
    void reply.type('application/json; charset=utf-8').send(pullJson(result, listener.leaseMs));
  }

  @Post('acknowledge')
  @HttpCode(200)
  @Allow('consume')
  @ApiOperation({ summary: 'What became of messages that were pulled: each lease by itself.' })
  @ApiBody({ type: AcknowledgeBody })
  @ApiResponse({
    status: 200,
    schema: SETTLED_LEASES,
    description:
      'Per lease: `done`; `fenced` (it ran out, or somebody else has the message: nothing is recorded); `unknown`.',
  })
  @ApiResponse({ status: 404, description: 'No listener has this name.' })
  @ApiResponse({ status: 409, description: NOT_PULLED })
  async acknowledge(@Param('name') name: string, @Body() body: unknown): Promise<SettledLeases> {
    refuseTooMany(body);
    const verdicts = verdictsOf(await validated(AcknowledgeBody, body));
    const listener = await this.pulled(name);
    const outcomes = await this.settle(listener, verdicts);
    this.metrics.fenced(listener.name, outcomes.filter((outcome) => outcome !== 'done').length);
    return { leases: verdicts.map(({ lease }, index) => ({ lease, outcome: outcomes[index]! })) };
  }

  /** Leases of other listeners are unknown here. */
  private async settle(listener: Listener, verdicts: readonly LeaseVerdict[]): Promise<LeaseOutcome[]> {
    const outcomes: LeaseOutcome[] = verdicts.map(() => 'unknown');
    const known = verdicts.flatMap(({ lease, verdict }, index) => {
      const ref = parseLease(lease);
      return ref && listenerOfLane(ref.lane) === listener.number ? [{ index, ref, verdict }] : [];
    });
    const settled = await this.leases.settle(
      listener,
      known.map(({ ref, verdict }) => [ref, verdict] as const satisfies readonly [LeaseRef, unknown]),
    );
    for (const [nth, { index }] of known.entries()) outcomes[index] = settled[nth]!;
    return outcomes;
  }

  /** What a consumer that hung up cannot have received completely is handed out again at once. */
  private giveBackUnsent(listener: Listener, { token, rows }: PullResult, reply: FastifyReply): void {
    if (rows.length === 0) return;
    // While the consumer reads the response, only its bytes are kept.
    const places = rows.map(({ lane, position, attempt }) => ({ lane, position, attempt }));
    onUnread(reply, () => this.queues.giveBack(listener, token, places));
  }

  /** Another replica may have created it a moment ago. */
  private async pulled(name: string): Promise<Listener> {
    if (!this.listeners.byName(name)) await this.listeners.refresh();
    const listener = this.listeners.byName(name);
    if (!listener) throw noListener();
    if (listener.mode !== 'pull')
      throw new Problem(
        'conflict',
        'This listener receives webhooks; only one with the mode "pull" can be pulled.',
      );
    return listener;
  }
}
