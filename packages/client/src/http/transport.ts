export interface HttpRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly signal: AbortSignal;
}

export interface HttpReply {
  readonly status: number;
  readonly text: string;
  /** The names are in lower case. */
  header(name: string): string | null | undefined;
}

/** Sends one request and reads the whole response. Fails if there is none; never because of its status. */
export type Transport = (request: HttpRequest) => Promise<HttpReply>;

/** The part of `fetch` that is used. */
export type Fetch = (
  url: string,
  init: {
    method: string;
    headers: Record<string, string>;
    body?: string;
    signal: AbortSignal;
    redirect: 'manual';
  },
) => Promise<{
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
}>;

/** Redirects are not followed: they would carry the API key elsewhere. */
export function fetchTransport(fetch: Fetch = (url, init) => globalThis.fetch(url, init)): Transport {
  return async ({ method, url, headers, body, signal }) => {
    const response = await fetch(url, {
      method,
      headers: { ...headers },
      signal,
      redirect: 'manual',
      ...(body === undefined ? {} : { body }),
    });
    const text = await response.text();
    return { status: response.status, text, header: (name) => response.headers.get(name) };
  };
}
