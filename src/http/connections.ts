import { AsyncResource } from 'node:async_hooks';
import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Node pauses a socket whose client does not read the responses, but only between two reads. One read of 64 KiB can hold
 * 2,000 pipelined requests, and all of them used to start before the pause (measured: 26 KB of pipelined requests for an
 * asset took 577 MiB). So at most MAX_ACTIVE requests of a connection run at a time. The others wait, at 6 KiB each; when
 * too many wait on one connection or on all of them, the connection is closed.
 */
export const MAX_ACTIVE = 16;
export const MAX_WAITING = { onOne: 1_000, onAll: 10_000 };

/** Why the service closed a connection or did not accept it. */
export type CloseReason = 'pipelined' | 'stalled' | 'limit';

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Resolves when the response is written, or never will be. */
  readonly responded: Promise<void>;
  start: () => void;
}

interface Connection {
  readonly active: Set<Exchange>;
  /** Pipelined requests that have not started, in order of arrival. */
  readonly waiting: Exchange[];
  /** The connection accepts no more requests. */
  closing: boolean;
}

type Route = (request: IncomingMessage, response: ServerResponse) => void;

/** Limits connections and the work per connection. Opening one needs no api key, so anyone can open many. */
export class Connections {
  private readonly open = new Map<Socket, Connection>();
  /** The number of waiting requests on all connections. */
  waitingRequests = 0;

  constructor(
    private readonly limits: { readonly connectionsLimit: number; readonly writeTimeout: number },
    private readonly onClose: (reason: CloseReason) => void,
  ) {}

  /** Replaces the server's own request listener: requests reach `route` through the limits of this class. */
  attach(server: HttpServer, route: Route): void {
    server.maxConnections = this.limits.connectionsLimit;
    server.on('drop', () => this.onClose('limit'));
    server.on('connection', (socket) => this.add(socket));
    server.removeAllListeners('request');
    const accept: Route = (request, response) => this.accept(request, response, route);
    server.on('request', accept);
    // Ignores an unknown `Expect` header, for which Node would send a 417 without a body.
    server.on('checkExpectation', accept);
    server.setTimeout(this.limits.writeTimeout, (socket) => this.onSocketTimeout(server, socket));
  }

  get sockets(): Iterable<Socket> {
    return this.open.keys();
  }

  get size(): number {
    return this.open.size;
  }

  /**
   * Stops accepting requests on the connection and calls `last` once the complete requests before have their responses.
   * A response written earlier than theirs would be taken for one of theirs.
   */
  closeAfterResponses(socket: Socket, last: () => void): void {
    const connection = this.open.get(socket);
    if (connection?.closing) return;
    if (connection) connection.closing = true;
    this.destroyWhenStalled(socket);
    const complete = this.completeRequests(socket);
    if (complete.length === 0) last();
    else
      void Promise.all(complete.map(({ responded }) => responded)).then(() => {
        if (!socket.destroyed) last();
      });
  }

  /** Whether completely received requests still wait for their responses. */
  hasPendingResponses(socket: Socket): boolean {
    return this.completeRequests(socket).length > 0;
  }

  private completeRequests(socket: Socket): Exchange[] {
    const { active: inWork = [], waiting = [] } = this.open.get(socket) ?? {};
    return [...inWork, ...waiting].filter(({ request }) => request.complete);
  }

  private add(socket: Socket): void {
    const connection: Connection = { active: new Set(), waiting: [], closing: false };
    this.open.set(socket, connection);
    socket.once('close', () => {
      this.open.delete(socket);
      const waiting = connection.waiting.splice(0);
      this.waitingRequests -= waiting.length;
      // Node emits no `close` for a response that was never assigned to the socket; code that awaits it would wait forever.
      for (const { response } of [...connection.active, ...waiting])
        if (!response.socket) response.emit('close');
    });
  }

  private accept(request: IncomingMessage, response: ServerResponse, route: Route): void {
    const { socket } = request;
    const connection = this.open.get(socket);
    if (!connection || socket.destroyed) return;
    const exchange = this.exchangeOf(connection, request, response, route);
    if (connection.waiting.length === 0 && mayStart(exchange, connection)) {
      connection.active.add(exchange);
      exchange.start();
      return;
    }
    if (connection.waiting.length >= MAX_WAITING.onOne || this.waitingRequests >= MAX_WAITING.onAll) {
      this.onClose('pipelined');
      socket.destroy();
      return;
    }
    // Another request's end starts this one; without the binding it would run in that request's trace context.
    exchange.start = AsyncResource.bind(exchange.start);
    connection.waiting.push(exchange);
    this.waitingRequests++;
  }

  private exchangeOf(
    connection: Connection,
    request: IncomingMessage,
    response: ServerResponse,
    route: Route,
  ): Exchange {
    const responded = new Promise<void>((resolve) => {
      response.once('close', () => {
        connection.active.delete(exchange);
        resolve();
        this.startWaiting(connection);
      });
    });
    const start = () => route(request, response);
    const exchange: Exchange = { request, response, responded, start };
    return exchange;
  }

  private startWaiting(connection: Connection): void {
    for (let [next] = connection.waiting; next && mayStart(next, connection); [next] = connection.waiting) {
      if (next.request.socket.destroyed) return;
      connection.waiting.shift();
      this.waitingRequests--;
      connection.active.add(next);
      next.start();
    }
  }

  /** Node's socket timer: for the whole timeout nothing was received and none of the pending output was read. */
  private onSocketTimeout(server: HttpServer, socket: Socket): void {
    const stalled = socket.writableLength > 0;
    // Between two requests Node sets the timer to keepAliveTimeout.
    const keepAliveExpired = this.open.get(socket)?.active.size === 0 && socket.timeout !== server.timeout;
    if (stalled) this.onClose('stalled');
    if (stalled || keepAliveExpired) socket.destroy();
  }

  /** For a closing connection: data that the client keeps sending restarts Node's timer, so it would never fire. */
  private destroyWhenStalled(socket: Socket): void {
    const timer = setInterval(() => {
      if (socket.writableLength === 0) return;
      this.onClose('stalled');
      socket.destroy();
    }, this.limits.writeTimeout).unref();
    socket.once('close', () => clearInterval(timer));
  }
}

/** The response of a GET can be large and would wait in memory for the responses before it, so it starts alone. */
function mayStart({ request: { method } }: Exchange, { active: inWork }: Connection): boolean {
  return method === 'GET' || method === 'HEAD' ? inWork.size === 0 : inWork.size < MAX_ACTIVE;
}
