import { Inject, Injectable } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { isShared } from './prepared-file.ts';
import { Problem, retryAfter } from './problems.ts';

/** Smaller responses are not counted: the buffers of their connections take more memory than they do. */
const MIN_COUNTED_BYTES = 4_096;
/** A consumer gets at most this part of what is free, so that those that do not read leave something for the others. */
const SHARE = 1 / 8;

/** Room for a response that is not made yet. */
export interface Reservation {
  readonly bytes: number;
  release(): void;
}

/**
 * Limits the total size of the responses in memory. A response stays there until its client has read it, so a limit per
 * response is not enough: forty consumers that poll 16 MiB each and do not read ended a replica with a heap of 384 MB.
 */
@Injectable()
export class ResponsesInFlight {
  private sum = { bytes: 0 };
  private readonly maxBytes: number;

  constructor(@Inject(SETTINGS_TOKEN) { responsesLimit }: Pick<Settings, 'responsesLimit'>) {
    this.maxBytes = responsesLimit;
  }

  /** From now on, the limit is on the responses of both. */
  shareWith({ sum }: ResponsesInFlight): void {
    this.sum = sum;
  }

  /** Less than `maxBytes` if little is free; throws a problem if nothing is. What is handed out cannot be refused later. */
  reserve(maxBytes: number): Reservation {
    const free = this.maxBytes - this.sum.bytes;
    if (free <= 0) throw tooMany();
    const bytes = Math.ceil(Math.min(maxBytes, free * SHARE));
    return { bytes, release: this.add(bytes) };
  }

  /**
   * Counts a response until its client has read it or is gone; returns it as bytes, which take no space in the heap of
   * JavaScript. A page that exceeds the limit is refused: its client can ask for it again. Files of which each response sends
   * the same bytes do not count, nor do streams.
   */
  track(payload: unknown, { raw, request }: FastifyReply): unknown {
    if (typeof payload !== 'string' && (!Buffer.isBuffer(payload) || isShared(payload))) return payload;
    const body = ownBytes(payload);
    if (body.length < MIN_COUNTED_BYTES) return body;
    if (request.method === 'GET' && this.sum.bytes > 0 && this.sum.bytes + body.length > this.maxBytes)
      throw tooMany();
    raw.once('close', this.add(body.length));
    return body;
  }

  private add(bytes: number): () => void {
    this.sum.bytes += bytes;
    return () => {
      this.sum.bytes -= bytes;
    };
  }
}

/** A part of a larger buffer would keep all of it. */
function ownBytes(payload: string | Buffer): string | Buffer {
  if (typeof payload === 'string') return payload.length < MIN_COUNTED_BYTES ? payload : Buffer.from(payload);
  return payload.length < payload.buffer.byteLength ? Buffer.from(payload) : payload;
}

function tooMany(): Problem {
  return new Problem('overloaded', 'Too many responses have not been read. Retry later.', retryAfter(1));
}
