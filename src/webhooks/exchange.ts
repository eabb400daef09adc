import { type CallFailure, failureOf } from './call-failures.ts';
import type { HttpResult } from './call-result.ts';
import { parseRetryAfter } from './retry-after.ts';

/** The part of undici's controller that is used. */
interface Controller {
  abort(reason: Error): void;
}
type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

const MAX_BODY_BYTES = 16 * 1024;
const EXCERPT_BYTES = 1024;
/** 103 Early Hints and the like: a few are fine, a flood of them is a protocol error. */
const MAX_INFORMATIONAL = 16;

const REST_NOT_NEEDED = new Error('the rest of the response is not needed');
export const STOPPED: CallFailure = { reason: 'local', detail: 'this replica is stopping' };

/**
 * One request and its response, as an undici handler: one object per request, without a stream or a signal.
 *
 * It settles by itself when its timeout has passed. undici cannot do that: a request can be aborted only once the connection
 * is established (nodejs/undici#386). A request that has expired by then is aborted before its first byte.
 */
export class Exchange {
  private readonly startedAtMs = performance.now();
  private readonly timer: NodeJS.Timeout;
  private controller: Controller | undefined;
  /** The first byte was sent: later errors are about what came back. */
  private written = false;
  private settled = false;
  private informational = 0;
  private status = 0;
  private retryAfterMs: number | undefined;
  private excerpt: Buffer | undefined;
  private bodyBytes = 0;

  constructor(
    private readonly resolve: (result: HttpResult) => void,
    private readonly timeoutMs: number,
    /** The exchanges that are stopped together; this one leaves the set when it is settled. */
    private readonly group: Set<Exchange> | undefined,
  ) {
    this.timer = setTimeout(afterThisTurn, timeoutMs, this);
    group?.add(this);
  }

  onRequestStart(controller: Controller): void {
    this.controller = controller;
    if (this.settled) controller.abort(REST_NOT_NEEDED);
    else this.written = true;
  }

  /** Also called for every informational (1xx) response before the final one. */
  onResponseStart(_controller: Controller, status: number, headers: Headers): void {
    if (status < 200) {
      this.informational += 1;
      if (this.informational > MAX_INFORMATIONAL) {
        this.fail({ reason: 'protocol', detail: `more than ${MAX_INFORMATIONAL} informational responses` });
      }
      return;
    }
    this.status = status;
    this.retryAfterMs = parseRetryAfter(oneOf(headers['retry-after']), oneOf(headers.date));
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    if (this.bodyBytes < EXCERPT_BYTES) this.keep(chunk.subarray(0, EXCERPT_BYTES - this.bodyBytes));
    this.bodyBytes += chunk.length;
    if (this.bodyBytes > MAX_BODY_BYTES) this.respond();
  }

  onResponseEnd(): void {
    this.controller = undefined;
    this.respond();
  }

  onResponseError(_controller: Controller, error: Error): void {
    this.controller = undefined;
    this.fail(failureOf(error, this.written));
  }

  expire(): void {
    this.fail({ reason: 'timeout', detail: `no response within ${this.timeoutMs} ms` });
  }

  /** Ends the exchange; if the headers have arrived, it counts as a response nevertheless. */
  fail({ reason, detail }: CallFailure): void {
    if (this.status !== 0) this.respond();
    else this.settle({ kind: 'failed', reason, detail, durationMs: this.durationMs() });
  }

  private respond(): void {
    const { status, retryAfterMs } = this;
    const excerpt = this.excerpt ? textOf(this.excerpt, this.bodyBytes > EXCERPT_BYTES) : '';
    const response = { kind: 'responded', status, excerpt, durationMs: this.durationMs() } as const;
    this.settle(retryAfterMs === undefined ? response : { ...response, retryAfterMs });
  }

  private settle(result: HttpResult): void {
    if (this.settled) return;
    this.settled = true;
    clearTimeout(this.timer);
    this.group?.delete(this);
    this.controller?.abort(REST_NOT_NEEDED);
    this.resolve(result);
  }

  /** Copies: the chunk is a view of a buffer 64 times as large. */
  private keep(bytes: Buffer): void {
    this.excerpt = this.excerpt ? Buffer.concat([this.excerpt, bytes]) : Buffer.from(bytes);
  }

  private durationMs(): number {
    return Math.round(performance.now() - this.startedAtMs);
  }
}

/**
 * After this process was paused, timers run before sockets are read. One more turn of the event loop, so that a response that
 * arrived in time is not lost.
 */
function afterThisTurn(exchange: Exchange): void {
  setImmediate(expire, exchange);
}

function expire(exchange: Exchange): void {
  exchange.expire();
}

function oneOf(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === 'object' ? value[0] : value;
}

/** Bad UTF-8 becomes U+FFFD, a character cut in half at the end is left out, and so are NULs, which no text column takes. */
function textOf(bytes: Buffer, cut: boolean): string {
  const text = bytes.toString('utf8').replaceAll('\0', '');
  return cut && text.endsWith('\uFFFD') ? text.slice(0, -1) : text;
}
