import type { FastifyReply, FastifyRequest, RequestPayload } from 'fastify';
import { Problem, retryAfter } from './problems.ts';

/**
 * A body is whole in memory until its request is answered. Each has a limit of its own; this is the one over all requests,
 * or fifty large ones at a time would fill any memory before anything is known of them. What has come counts, not what was
 * announced: whoever announces much and sends nothing keeps no room from others.
 */
export class BodiesInFlight {
  private bytes = 0;

  constructor(private readonly most: number) {}

  /** Refuses one that will not fit, else counts it while it comes, until the answer is out or the caller is gone. */
  watch(request: FastifyRequest, reply: FastifyReply, payload: RequestPayload): void {
    const length = Number(request.headers['content-length'] ?? 0);
    // What is too large for its route is told that.
    if (length <= request.routeOptions.bodyLimit) this.refuseBeyond(length, 0);
    let own = 0;
    const count = (chunk: Buffer) => {
      own += chunk.length;
      this.bytes += chunk.length;
      try {
        this.refuseBeyond(0, own);
      } catch (error) {
        payload.off('data', count);
        // To whoever gathers the body; the rest of it is read by nobody.
        payload.emit('error', error);
      }
    };
    payload.on('data', count);
    reply.raw.once('close', () => {
      payload.off('data', count);
      this.bytes -= own;
    });
  }

  /** One alone always fits. */
  private refuseBeyond(more: number, own: number): void {
    if (this.bytes === own || this.bytes + more <= this.most) return;
    throw new Problem('overloaded', 'Too much is being received at once; try again.', retryAfter(1));
  }
}
