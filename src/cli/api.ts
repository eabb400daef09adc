import { setTimeout as pause } from 'node:timers/promises';
import { CliError, EXIT } from './cli-error.ts';

export interface CallOptions {
  readonly query?: Readonly<Record<string, string | undefined>>;
  /** A value, or its JSON text. */
  readonly body?: unknown;
  /** Of a body that is not JSON. */
  readonly contentType?: string | undefined;
  /** Number of retries if the request may not have arrived, or the service asks for a retry. */
  readonly retries?: number;
  /** Ends the request early. */
  readonly signal?: AbortSignal | undefined;
}

export interface ApiResponse {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: the OpenAPI document describes the responses
  readonly body: any;
  readonly date: Date | undefined;
  readonly headers: Headers;
}

const MAX_CALL_MS = 30_000;
const RETRIED_STATUSES: readonly number[] = [429, 502, 503, 504];

/** The HTTP API of a running service. */
export class Api {
  readonly url: string;

  /** `url` may have a path, for a service behind a proxy. */
  constructor(
    url: string,
    private readonly key: string | undefined,
  ) {
    this.url = url.replace(/\/+$/, '');
  }

  get(path: string, query: CallOptions['query'] = {}): Promise<ApiResponse> {
    return this.call('GET', path, { query, retries: 2 });
  }

  /** Fetches all pages of a list, up to `max` items. */
  async list(path: string, query: CallOptions['query'], max: number): Promise<unknown[]> {
    return (await this.listWithText(path, query, max)).items;
  }

  /** Like `list`, and the JSON text of all items, in which payloads are exactly as the service sent them. */
  async listWithText(
    path: string,
    query: CallOptions['query'],
    max: number,
  ): Promise<{ items: unknown[]; text: string }> {
    const items: unknown[] = [];
    const texts: string[] = [];
    let cursor: string | undefined;
    do {
      const limit = String(Math.min(500, max - items.length));
      const { body, text } = await this.get(path, { ...query, limit, cursor });
      items.push(...body.items);
      if (body.items.length > 0) texts.push(itemsText(text, body));
      cursor = body.next ?? undefined;
    } while (cursor !== undefined && items.length < max);
    return { items, text: texts.join(',') };
  }

  /** Returns a 2xx response; throws a CliError with the service's message for any other status. */
  async call(method: string, path: string, options: CallOptions = {}): Promise<ApiResponse> {
    const response = await this.request(method, path, options);
    if (response.status < 300) return response;
    const { title, detail, errors } = response.body ?? {};
    const lines = (errors ?? []).map(
      (one: { pointer: string; detail: string }) => `  ${one.pointer} ${one.detail}`,
    );
    const reason = title ? `${title}: ${detail}` : response.text.slice(0, 200);
    throw new CliError(
      [`${method} ${path} returned ${response.status}. ${reason}`, ...lines, ...hintOf(response.status)].join(
        '\n',
      ),
      EXIT.failed,
      response.body,
      response.status === 429 || response.status >= 500,
    );
  }

  /** Returns the response, whatever its status is. */
  async request(
    method: string,
    path: string,
    { query = {}, body, contentType, retries = 0, signal }: CallOptions = {},
  ): Promise<ApiResponse> {
    const url = new URL(`${this.url}${path}`);
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) url.searchParams.set(name, value);
    for (let left = retries; ; left--) {
      const response = await this.send(url, method, { body, contentType, signal }).catch((error) => {
        if (left === 0 || signal?.aborted) throw this.unreachable(error);
        return undefined;
      });
      if (response && (left === 0 || !RETRIED_STATUSES.includes(response.status))) return response;
      await pause(500);
    }
  }

  private async send(
    url: URL,
    method: string,
    { body, contentType = 'application/json', signal }: CallOptions,
  ): Promise<ApiResponse> {
    const timeout = AbortSignal.timeout(MAX_CALL_MS);
    const response = await fetch(url, {
      method,
      redirect: 'error',
      signal: signal ? AbortSignal.any([timeout, signal]) : timeout,
      headers: {
        ...(this.key ? { authorization: `Bearer ${this.key}` } : {}),
        ...(body === undefined ? {} : { 'content-type': contentType }),
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const date = response.headers.get('date');
    const { status, headers } = response;
    return { status, text, body: parsed(text), date: date ? new Date(date) : undefined, headers };
  }

  private unreachable(error: unknown): CliError {
    const { cause, message } = error as Error & { cause?: { code?: string; message?: string } };
    const reason = cause?.code ?? cause?.message ?? message;
    const sentence = `cannot reach Sluice at ${this.url} (${reason}); set SLUICE_URL`;
    return new CliError(sentence, EXIT.unreachable, undefined, true);
  }
}

/** The text of the items array of a page, without its brackets; serialised again if the page has an unexpected form. */
function itemsText(text: string, page: { items: unknown[]; next: unknown }): string {
  const [before, after] = ['{"items":[', `],"next":${JSON.stringify(page.next)}}`];
  if (text.startsWith(before) && text.endsWith(after)) return text.slice(before.length, -after.length);
  return JSON.stringify(page.items).slice(1, -1);
}

function hintOf(status: number): string[] {
  if (status === 401) return ['Set SLUICE_API_KEY to a valid key.'];
  return status === 403 ? ['Use a key with the scope named above.'] : [];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
