/** The console is served below `console/`: everything else of the service is one folder up, whatever the prefix is. */
const BASE = new URL('../', document.baseURI);

export interface FieldError {
  readonly pointer: string;
  readonly detail: string;
}

/** A request that did not succeed. `detail` says what to do about it. */
export class Failure extends Error {
  constructor(
    /** 0: no response. */
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly errors: readonly FieldError[] = [],
  ) {
    super(detail);
  }
}

let onUnauthenticated: () => void = () => undefined;

/** What happens when a request is answered with 401: the session is over, or the key was revoked. */
export function whenUnauthenticated(run: () => void): void {
  onUnauthenticated = run;
}

type Query = Readonly<Record<string, string | number | undefined>>;

/** A path with every inserted value encoded: ids may contain `/`, `%` and `#`. */
export function path(parts: TemplateStringsArray, ...values: readonly string[]): string {
  return parts.reduce((whole, part, index) => whole + encodeURIComponent(values[index - 1] ?? '') + part);
}

/** The absolute URL of a path of the API, without empty query parameters. */
export function urlOf(to: string, query: Query = {}): string {
  const url = new URL(to.replace(/^\//, ''), BASE);
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== '') url.searchParams.set(name, String(value));
  return url.href;
}

export interface Fetched<T> {
  readonly data: T;
  /** How old it is: everybody who repeats the same request shares a response. */
  readonly ageSeconds: number;
}

/** `maxAgeSeconds`: how old a response may be, for a request that is repeated; 0: read at once. */
export async function fetchShared<T>(
  to: string,
  query: Query,
  maxAgeSeconds: number,
  signal: AbortSignal,
): Promise<Fetched<T>> {
  const headers = { 'cache-control': `max-age=${maxAgeSeconds}` };
  const response = await request(urlOf(to, query), { headers, signal });
  return { data: (await response.json()) as T, ageSeconds: Number(response.headers.get('age') ?? 0) };
}

export async function get<T>(to: string, query?: Query): Promise<T> {
  return (await (await request(urlOf(to, query), {})).json()) as T;
}

/** The body as text, exactly as it was sent, with the response for its headers. */
export async function getText(to: string, query?: Query): Promise<{ text: string; response: Response }> {
  const response = await request(urlOf(to, query), {});
  return { text: await response.text(), response };
}

export async function send<T>(method: string, to: string, body?: unknown): Promise<T> {
  const json = body === undefined ? {} : { body: JSON.stringify(body) };
  const headers: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' };
  const response = await request(urlOf(to), { method, headers, ...json });
  const text = await response.text();
  return (text === '' ? undefined : JSON.parse(text)) as T;
}

async function request(url: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Failure(
      0,
      'No response',
      'The service does not respond. Check that a replica with the role api runs, then try again.',
    );
  }
  if (response.ok) return response;
  const failure = await failureOf(response);
  if (response.status === 401) onUnauthenticated();
  throw failure;
}

async function failureOf(response: Response): Promise<Failure> {
  const problem = (await response.json().catch(() => ({}))) as {
    title?: string;
    detail?: string;
    errors?: FieldError[];
  };
  const title = problem.title ?? `HTTP ${response.status}`;
  return new Failure(response.status, title, problem.detail ?? adviceOf(response.status), problem.errors);
}

function adviceOf(status: number): string {
  if (status === 404) return 'This service does not know this request; it may be an older version.';
  return status >= 500
    ? 'Something between here and the service failed. Try again.'
    : 'The request was refused.';
}
