import { clientError, type FieldError, type Problem, SluiceError } from '../errors.ts';
import type { OnEvent } from '../events.ts';
import { backoff, retryAfterOf } from './backoff.ts';
import { pause } from './pause.ts';
import type { HttpReply, Transport } from './transport.ts';

export interface CallOptions {
  /** JSON text. */
  readonly body?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  /** How often the call is repeated after a wait. Each time all URLs are tried before the next wait. */
  readonly retries?: number;
  readonly signal?: AbortSignal | undefined;
}

export interface ApiOptions {
  readonly urls: readonly string[];
  readonly apiKey: string | undefined;
  readonly transport: Transport;
  readonly timeoutMs: number;
  readonly onEvent: OnEvent;
}

/** The HTTP API, over all replicas. What is called through it must be safe to repeat. */
export class Api {
  /** The URL that responded last. */
  private preferred = 0;
  private readonly urls: readonly string[];

  constructor(private readonly options: ApiOptions) {
    if (options.urls.length === 0) throw new TypeError('url must have at least one URL');
    this.urls = options.urls.map(baseUrl);
  }

  get timeoutMs(): number {
    return this.options.timeoutMs;
  }

  /** Returns the body of a 2xx response; throws a SluiceError for anything else. */
  async call<Body>(method: string, path: string, options: CallOptions = {}): Promise<Body> {
    const { retries = 0, signal } = options;
    for (let n = 0; ; n++) {
      try {
        return await this.tryAll<Body>(method, path, options);
      } catch (error) {
        signal?.throwIfAborted();
        if (!(error instanceof SluiceError && error.retryable) || n >= retries) throw error;
        this.options.onEvent({
          event: 'request.retried',
          detail: `${method} ${path}, retry ${n + 1}: ${error.message}`,
          error,
        });
        await pause(backoff(n, error.retryAfter), signal);
        signal?.throwIfAborted();
      }
    }
  }

  /** A URL that fails passes the call on to the next one at once. */
  private async tryAll<Body>(method: string, path: string, options: CallOptions): Promise<Body> {
    for (let tried = 1; ; tried++) {
      const index = this.preferred;
      try {
        return await this.tryOne<Body>(this.urls[index]!, method, path, options);
      } catch (error) {
        options.signal?.throwIfAborted();
        if (!(error instanceof SluiceError && error.retryable)) throw error;
        if (this.preferred === index) this.preferred = (index + 1) % this.urls.length;
        // A limit of the API key is the same at every replica.
        if (tried >= this.urls.length || error.status === 429) throw error;
      }
    }
  }

  private async tryOne<Body>(
    base: string,
    method: string,
    path: string,
    { body, headers = {}, timeoutMs = this.options.timeoutMs, signal }: CallOptions,
  ): Promise<Body> {
    const deadline = new Deadline(timeoutMs, signal);
    const { apiKey, transport } = this.options;
    const reply = await transport({
      method,
      url: base + path,
      body,
      signal: deadline.signal,
      headers: {
        accept: 'application/json',
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
    })
      .catch((error: unknown) => {
        throw noResponse(base, error, deadline.isOver ? timeoutMs : undefined);
      })
      .finally(() => deadline.end());
    return bodyOf<Body>(base, reply);
  }
}

/** Aborts when the time is over or the caller's signal does. AbortSignal.any() is missing in early versions of Node 20. */
class Deadline {
  isOver = false;
  private readonly controller = new AbortController();
  private readonly timer: ReturnType<typeof setTimeout>;
  private readonly follow = () => this.controller.abort(this.outer?.reason);

  constructor(
    ms: number,
    private readonly outer: AbortSignal | undefined,
  ) {
    this.timer = setTimeout(() => {
      this.isOver = true;
      this.controller.abort();
    }, ms);
    if (outer?.aborted) this.follow();
    else outer?.addEventListener('abort', this.follow);
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  end(): void {
    clearTimeout(this.timer);
    this.outer?.removeEventListener('abort', this.follow);
  }
}

function baseUrl(url: string): string {
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url))
    throw new TypeError(`url must be an http(s) URL, not ${url}`);
  return url.replace(/\/+$/, '');
}

function noResponse(base: string, error: unknown, timeoutMs: number | undefined): SluiceError {
  if (timeoutMs !== undefined)
    return clientError('timeout', 'No response in time', `${base} did not respond within ${timeoutMs} ms.`);
  const { cause, message } = error as Error & { cause?: { code?: string; message?: string } };
  const reason = cause?.code ?? (cause?.message || message);
  return clientError('unreachable', 'Unreachable', `${base}: ${reason}`, { cause: error });
}

function bodyOf<Body>(base: string, reply: HttpReply): Body {
  const ok = reply.status >= 200 && reply.status < 300;
  const body = parsed(reply.text);
  if (ok && (reply.text === '' || body !== undefined)) return body as Body;
  if (ok) {
    const detail = `${base} returned ${reply.status} with a body that is not JSON.`;
    throw clientError('bad-response', 'Unreadable response', detail);
  }
  throw new SluiceError(problemOf(base, reply, body), {
    retryAfter: retryAfterOf(reply.header('retry-after')),
  });
}

/** A proxy in between may return errors that are no problem+json. */
function problemOf(base: string, { status, text }: HttpReply, body: unknown): Problem {
  const { type, title, detail, errors } = (body ?? {}) as Partial<Problem>;
  if (typeof type === 'string' && typeof title === 'string')
    return { type, title, detail: detail ?? '', status, errors: errors as FieldError[] | undefined };
  const excerpt = text.trim().slice(0, 200);
  return {
    type: 'about:blank',
    title: `HTTP ${status}`,
    detail: `${base} returned ${excerpt || 'no body'}`,
    status,
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
