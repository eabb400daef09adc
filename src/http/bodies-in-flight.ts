import type { FastifyReply, FastifyRequest, RequestPayload } from 'fastify';
import { Problem, retryAfter } from './problems.ts';

/**
 * Limits the total size of the request bodies in memory. A body stays in memory until its request gets its response, so a
 * limit per request is not enough: fifty large bodies at a time would exhaust the memory before any is examined. The limit
 * counts the bytes received, not the announced content-length: a client that announces much and sends nothing takes no
 * share from others.
 */
export class BodiesInFlight {
  private bytes = 0;

  constructor(private readonly maxBytes: number) {}

  /** Rejects a body that exceeds the limit, else counts its bytes until the response is sent or the client disconnects. */
  track(request: FastifyRequest, reply: FastifyReply, payload: RequestPayload): void {
    const length = Number(request.headers['content-length'] ?? 0);
    // A body over the limit of its route is rejected later, as too large.
    if (length <= request.routeOptions.bodyLimit) this.rejectOverLimit(length, 0);
    let own = 0;
    const count = (chunk: Buffer) => {
      own += chunk.length;
      this.bytes += chunk.length;
      try {
        this.rejectOverLimit(0, own);
      } catch (error) {
        payload.off('data', count);
        // Fails Fastify's body reader; nothing reads the rest of the body.
        payload.emit('error', error);
      }
    };
    payload.on('data', count);
    reply.raw.once('close', () => {
      payload.off('data', count);
      this.bytes -= own;
    });
  }

  /** A single body is always accepted, whatever its size. */
  private rejectOverLimit(more: number, own: number): void {
    if (this.bytes === own || this.bytes + more <= this.maxBytes) return;
    throw new Problem(
      'overloaded',
      'Too many request bodies are being received. Retry later.',
      retryAfter(1),
    );
  }
}
