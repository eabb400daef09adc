import { channel } from 'node:diagnostics_channel';
import { Injectable } from '@nestjs/common';
import { type Context, context, propagation, ROOT_CONTEXT } from '@opentelemetry/api';
import { buildConnector, Client, type Dispatcher, Pool } from 'undici';
import type { HttpResult } from './call-result.ts';
import { EgressGuard, guardedConnector } from './egress-guard.ts';
import { Exchange, STOPPED } from './exchange.ts';
import { acceptInterimResponses } from './interim-responses.ts';
import { withoutEcho } from './url-echo.ts';
import { traceparentOf, type WebhookRequest } from './webhook-request.ts';

export interface SendOptions {
  /** For the whole call: waiting for a connection, connecting, headers and body. */
  readonly timeoutMs: number;
  /** Aborts the call, which then fails as `local`. */
  readonly signal?: AbortSignal | undefined;
}

/** The connections to one listener. */
interface Route {
  readonly url: string;
  readonly connections: number;
  readonly connectMs: number;
  readonly path: string;
  readonly pool: Pool;
}

/** Max connections of one replica to one listener. */
export const MAX_CONNECTIONS = 100;
const CONNECT_TIMEOUT_MS = 10_000;
const CREATED = channel('undici:request:create');

/**
 * Posts webhooks. Only this file and `interim-responses.ts` use undici: every request passes the guard and has a deadline.
 *
 * Each listener has connections of its own. In one pool per origin, a few listeners that hang would take all connections
 * to a host that others use too (a gateway, a popular automation service), and a duplicate response on a connection would
 * be taken for the response to another listener's request.
 */
@Injectable()
export class WebhookSender {
  private readonly routes = new Map<number, Route>();
  private readonly bySignal = new WeakMap<AbortSignal, Set<Exchange>>();
  private closed = false;

  /** `trust`: a certificate authority instead of the system's (which NODE_EXTRA_CA_CERTS adds to). */
  constructor(
    private readonly guard: EgressGuard,
    private readonly trust?: string,
  ) {}

  /** Never throws: a failure is a result, too. Redirects are not followed. */
  send(request: WebhookRequest, { timeoutMs, signal }: SendOptions): Promise<HttpResult> {
    return new Promise((resolve) => {
      const settle = (result: HttpResult) => resolve(withoutEcho(result, request.url));
      const exchange = new Exchange(settle, timeoutMs, signal && this.groupOf(signal));
      if (this.closed || signal?.aborted) return exchange.fail(STOPPED);
      const route = this.routeTo(request, timeoutMs);
      if (typeof route === 'string') return exchange.fail({ reason: 'egress', detail: route });
      route.pool.dispatch(postOptions(route.path, request), exchange);
    });
  }

  /** Aborts calls in flight. */
  async close(): Promise<void> {
    this.closed = true;
    const routes = [...this.routes.values()];
    this.routes.clear();
    await Promise.all(routes.map(({ pool }) => pool.destroy()));
  }

  /** One abort listener for all calls: a signal with hundreds of listeners is searched at every add and remove. */
  private groupOf(signal: AbortSignal): Set<Exchange> {
    let exchanges = this.bySignal.get(signal);
    if (exchanges === undefined) {
      const together = new Set<Exchange>();
      signal.addEventListener('abort', () => stopAll(together), { once: true });
      this.bySignal.set(signal, together);
      exchanges = together;
    }
    return exchanges;
  }

  /** A string is the reason why the URL must not be called. */
  private routeTo({ listener, url, connections }: WebhookRequest, timeoutMs: number): Route | string {
    const known = this.routes.get(listener);
    const connectMs = Math.min(timeoutMs, CONNECT_TIMEOUT_MS);
    if (known?.url === url && known.connections === connections && known.connectMs === connectMs)
      return known;
    const verdict = this.guard.checkUrl(url);
    if (verdict.kind === 'refused') return verdict.reason;
    void known?.pool.close();
    const route = this.newRoute(url, connections, connectMs);
    this.routes.set(listener, route);
    const forgetIfUnused = () => {
      const { connected, size } = route.pool.stats;
      if (connected === 0 && size === 0 && this.routes.get(listener) === route) this.routes.delete(listener);
    };
    route.pool.on('disconnect', forgetIfUnused).on('connectionError', forgetIfUnused);
    return route;
  }

  private newRoute(url: string, connections: number, connectMs: number): Route {
    const { origin, pathname, search } = new URL(url);
    const pool = new Pool(origin, {
      factory: (to, options) =>
        new RouteClient(to, options).on('connect', (_, [client]) => acceptInterimResponses(client as Client)),
      connect: this.connector(connectMs),
      connections: Math.min(connections, MAX_CONNECTIONS),
      pipelining: 1,
      // undici's timeouts never fire if a receiver sends single bytes; the exchange has one for the whole call.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: 16 * 1024,
      keepAliveTimeout: 4_000,
      keepAliveMaxTimeout: 60_000,
    });
    return { url, connections, connectMs, path: pathname + search, pool };
  }

  /** No longer than the requests that wait for it: a connection attempt that no request waits for blocks others. */
  private connector(timeout: number) {
    const startTls = buildConnector({ timeout, ...(this.trust === undefined ? {} : { ca: this.trust }) });
    return guardedConnector(this.guard, timeout, startTls);
  }
}

function stopAll(exchanges: ReadonlySet<Exchange>): void {
  for (const exchange of [...exchanges]) exchange.fail(STOPPED);
}

/** `parent`: the trace context of the message, if tracing is on. */
type PostOptions = Dispatcher.DispatchOptions & { readonly parent: Context | undefined };

/** A pool dispatches a request once it has a connection, in the async context that is active then; so the context is passed. */
class RouteClient extends Client {
  override dispatch(options: PostOptions, handler: Dispatcher.DispatchHandler): boolean {
    if (options.parent === undefined) return super.dispatch(options, handler);
    return context.with(options.parent, () => super.dispatch(options, handler));
  }
}

/** A tracer writes `traceparent` itself, with its own span; a receiver would ignore two of them. */
function postOptions(path: string, { headers, body, deliveryId, traceparent }: WebhookRequest): PostOptions {
  const traced = CREATED.hasSubscribers;
  const own = traced ? headers : [...headers, 'traceparent', traceparent ?? traceparentOf(deliveryId)];
  const parent = traced ? contextOf(traceparent) : undefined;
  return { path, method: 'POST', headers: own as string[], body, parent };
}

function contextOf(traceparent: string | undefined): Context {
  return traceparent === undefined ? context.active() : propagation.extract(ROOT_CONTEXT, { traceparent });
}
