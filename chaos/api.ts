import type { Random } from './random.ts';

export interface Reply {
  readonly status: number;
  /** Undefined: it has none. */
  readonly body: unknown;
  /** Of the body, as it came. */
  readonly text: string;
}

export interface CallOptions {
  readonly body?: object;
  /** Statuses that may come, besides 503 and 429. */
  readonly expected: readonly number[];
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** The caller has to try again. */
const TEMPORARY = [429, 503];
const TIMEOUT_MS = 4_000;

/** Calls any replica, like a client behind a load balancer. */
export class Api {
  constructor(
    readonly urls: readonly string[],
    /** Responses with a status that a client cannot expect. */
    readonly unexpected: string[] = [],
  ) {}

  /** The same of one replica. */
  at(url: string): Api {
    return new Api([url], this.unexpected);
  }

  /** Undefined: there was no response, or a temporary failure; whether the call had an effect is unknown. */
  async call(method: string, path: string, random: Random, options: CallOptions): Promise<Reply | undefined> {
    const { body, expected, timeoutMs = TIMEOUT_MS, signal } = options;
    const reply = await send(`${random.one(this.urls)}${path}`, {
      method,
      ...(body ? { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) } : {}),
      signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(signal ? [signal] : [])]),
    });
    if (!reply || TEMPORARY.includes(reply.status)) return undefined;
    if (!expected.includes(reply.status))
      this.unexpected.push(`${method} ${path} returned ${reply.status}: ${JSON.stringify(reply.body)}`);
    return reply;
  }
}

async function send(url: string, request: RequestInit): Promise<Reply | undefined> {
  try {
    const response = await fetch(url, request);
    const text = await response.text();
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text), text };
  } catch {
    return undefined;
  }
}
