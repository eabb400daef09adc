import { setTimeout as pause } from 'node:timers/promises';
import { EXIT, Fault } from './faults.ts';

export interface CallOptions {
  readonly query?: Readonly<Record<string, string | undefined>>;
  /** A value, or the text of one. */
  readonly body?: unknown;
  /** Repeated this often when it is not known whether it arrived, or the service asks to come again. */
  readonly retries?: number;
}

export interface ApiAnswer {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: what the API answers is described by its OpenAPI document
  readonly body: any;
  readonly date: Date | undefined;
}

const MAX_CALL_MS = 30_000;
const WORTH_REPEATING: readonly number[] = [429, 502, 503, 504];

/** The HTTP API of a running service. */
export class Api {
  readonly url: string;

  /** `url` may have a path, as behind a proxy. */
  constructor(
    url: string,
    private readonly key: string | undefined,
  ) {
    this.url = url.replace(/\/+$/, '');
  }

  get(path: string, query: CallOptions['query'] = {}): Promise<ApiAnswer> {
    return this.call('GET', path, { query, retries: 2 });
  }

  /** Every page of a list, up to so many items. */
  async list(path: string, query: CallOptions['query'], most: number): Promise<unknown[]> {
    return (await this.listWithText(path, query, most)).items;
  }

  /** And the JSON text of all items, in which payloads are as the service sent them. */
  async listWithText(
    path: string,
    query: CallOptions['query'],
    most: number,
  ): Promise<{ items: unknown[]; text: string }> {
    const items: unknown[] = [];
    const texts: string[] = [];
    let cursor: string | undefined;
    do {
      const limit = String(Math.min(500, most - items.length));
      const { body, text } = await this.get(path, { ...query, limit, cursor });
      items.push(...body.items);
      if (body.items.length > 0) texts.push(itemsText(text, body));
      cursor = body.next ?? undefined;
    } while (cursor !== undefined && items.length < most);
    return { items, text: texts.join(',') };
  }

  /** An answer of 2xx; anything else is a fault that says what the service said. */
  async call(method: string, path: string, options: CallOptions = {}): Promise<ApiAnswer> {
    const answer = await this.ask(method, path, options);
    if (answer.status < 300) return answer;
    const { title, detail, errors } = answer.body ?? {};
    const lines = (errors ?? []).map(
      (one: { pointer: string; detail: string }) => `  ${one.pointer} ${one.detail}`,
    );
    const said = title ? `${title}: ${detail}` : answer.text.slice(0, 200);
    throw new Fault(
      [`${method} ${path} was answered ${answer.status}. ${said}`, ...lines, ...hintOf(answer.status)].join(
        '\n',
      ),
      EXIT.refused,
      answer.body,
      answer.status === 429 || answer.status >= 500,
    );
  }

  /** Whatever the answer is. */
  async ask(
    method: string,
    path: string,
    { query = {}, body, retries = 0 }: CallOptions = {},
  ): Promise<ApiAnswer> {
    const url = new URL(`${this.url}${path}`);
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) url.searchParams.set(name, value);
    for (let left = retries; ; left--) {
      const answer = await this.send(url, method, body).catch((error) => {
        if (left === 0) throw this.unreachable(error);
        return undefined;
      });
      if (answer && (left === 0 || !WORTH_REPEATING.includes(answer.status))) return answer;
      await pause(500);
    }
  }

  private async send(url: URL, method: string, body: unknown): Promise<ApiAnswer> {
    const response = await fetch(url, {
      method,
      redirect: 'error',
      signal: AbortSignal.timeout(MAX_CALL_MS),
      headers: {
        ...(this.key ? { authorization: `Bearer ${this.key}` } : {}),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const date = response.headers.get('date');
    return { status: response.status, text, body: parsed(text), date: date ? new Date(date) : undefined };
  }

  private unreachable(error: unknown): Fault {
    const { cause, message } = error as Error & { cause?: { code?: string; message?: string } };
    const reason = cause?.code ?? cause?.message ?? message;
    const sentence = `cannot reach Sluice at ${this.url} (${reason}); set SLUICE_URL`;
    return new Fault(sentence, EXIT.unreachable, undefined, true);
  }
}

/** What stands between the brackets of a page; written anew when the page has another form than the service gives it. */
function itemsText(text: string, page: { items: unknown[]; next: unknown }): string {
  const [before, after] = ['{"items":[', `],"next":${JSON.stringify(page.next)}}`];
  if (text.startsWith(before) && text.endsWith(after)) return text.slice(before.length, -after.length);
  return JSON.stringify(page.items).slice(1, -1);
}

function hintOf(status: number): string[] {
  if (status === 401) return ['Set SLUICE_API_KEY to a valid key.'];
  return status === 403 ? ['Use a key with the scope that is named.'] : [];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
