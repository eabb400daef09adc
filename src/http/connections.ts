import { AsyncResource } from 'node:async_hooks';
import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Node pauses a socket whose client does not read the responses, but only between two reads. One read of 64 KiB can hold
 * 2,000 pipelined requests, and all of them used to start before the pause (measured: 26 KB of pipelined requests for an
 * asset took 577 MiB). So at most MAX_ACTIVE requests of a connection run at a time, and the others wait. When the requests
 * that follow the first of their connection hold too much memory, on one connection or on all of them, the connection is
 * closed. Their number says too little: with many headers a waiting request holds twenty times as much as without.
 */
export const MAX_ACTIVE = 16;
/** Pipelined requests that start in one turn of the event loop, on all connections: the requests of others do not wait for more. */
const MAX_STARTED = 16;
export const MAX_PIPELINED_BYTES = { onOne: 4 * 1024 * 1024, onAll: 64 * 1024 * 1024 };

/** Fields of a request. Each takes about 100 bytes of memory besides its text, so 16 KiB of short ones took 117 KiB. */
export const MAX_HEADER_FIELDS = 128;

/** Of a request without headers, with its response, both streams and what waits for them. */
const REQUEST_BYTES = 6 * 1024;
/** Of a string of the headers besides its text: the object, and its places in the lists. */
const STRING_BYTES = 40;

/** Why the service closed a connection or did not accept it. */
export type CloseReason = 'pipelined' | 'stalled' | 'limit';

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Memory that counts as pipelined; none for the first request of a connection, which CONNECTIONS_LIMIT limits. */
  readonly pipelinedBytes: number;
  /** Resolves when the response is written, or never will be. */
  readonly responded: Promise<void>;
  start: () => void;
}

interface Connection {
  readonly active: Set<Exchange>;
  /** Pipelined requests that have not started, in order of arrival. */
  readonly waiting: Exchange[];
  pipelinedBytes: number;
  /** The connection accepts no more requests. */
  closing: boolean;
}

type Route = (request: IncomingMessage, response: ServerResponse) => void;

/** Limits connections and the work per connection. Opening one needs no api key, so anyone can open many. */
export class Connections {
  private readonly open = new Map<Socket, Connection>();
  /** On all connections. */
  pipelinedBytes = 0;
  /** Connections with pipelined requests that may be able to start, in the order of their turns. */
  private readonly due = new Set<Connection>();
  private startScheduled: NodeJS.Immediate | undefined;

  constructor(
    private readonly limits: { readonly connectionsLimit: number; readonly writeTimeout: number },
    private readonly onClose: (reason: CloseReason) => void,
  ) {}

  /** Replaces the server's own request listener: requests reach `route` through the limits of this class. */
  attach(server: HttpServer, route: Route): void {
    server.maxConnections = this.limits.connectionsLimit;
    // Node drops further ones without an error; one more than allowed is enough to notice.
    server.maxHeadersCount = MAX_HEADER_FIELDS + 1;
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
    const connection: Connection = { active: new Set(), waiting: [], pipelinedBytes: 0, closing: false };
    this.open.set(socket, connection);
    socket.once('close', () => {
      this.open.delete(socket);
      const waiting = connection.waiting.splice(0);
      // Node emits no `close` for a response that was never assigned to the socket; code that awaits it would wait forever.
      for (const { response } of [...connection.active, ...waiting])
        if (!response.socket) response.emit('close');
    });
  }

  private accept(request: IncomingMessage, response: ServerResponse, route: Route): void {
    const { socket } = request;
    const connection = this.open.get(socket);
    if (!connection || socket.destroyed) return;
    const { active, waiting } = connection;
    const pipelinedBytes = active.size + waiting.length === 0 ? 0 : bytesOf(request);
    if (!this.mayHold(pipelinedBytes, connection)) {
      this.onClose('pipelined');
      socket.destroy();
      return;
    }
    const exchange = this.exchangeOf(connection, { request, response, pipelinedBytes }, route);
    if (waiting.length === 0 && active.size === 0) {
      active.add(exchange);
      exchange.start();
      return;
    }
    // Another request's end starts this one; without the binding it would run in that request's trace context.
    exchange.start = AsyncResource.bind(exchange.start);
    waiting.push(exchange);
    this.startLater(connection);
  }

  /**
   * Not at once: what needs nothing from outside would be complete before the event loop continues, and so would be all
   * requests behind it. Other connections waited for the whole pipeline of each (measured: 6 s beside ten of 200 KB).
   */
  private startLater(connection: Connection): void {
    if (connection.waiting.length === 0) return;
    this.due.add(connection);
    this.scheduleStart();
  }

  private scheduleStart(): void {
    this.startScheduled ??= setImmediate(() => {
      this.startScheduled = undefined;
      this.startWaiting();
      if (this.due.size > 0) this.scheduleStart();
    });
  }

  private mayHold(bytes: number, connection: Connection): boolean {
    return (
      connection.pipelinedBytes + bytes <= MAX_PIPELINED_BYTES.onOne &&
      this.pipelinedBytes + bytes <= MAX_PIPELINED_BYTES.onAll
    );
  }

  private exchangeOf(
    connection: Connection,
    received: Pick<Exchange, 'request' | 'response' | 'pipelinedBytes'>,
    route: Route,
  ): Exchange {
    const { request, response, pipelinedBytes } = received;
    this.hold(pipelinedBytes, connection);
    const responded = new Promise<void>((resolve) => {
      response.once('close', () => {
        connection.active.delete(exchange);
        this.hold(-pipelinedBytes, connection);
        resolve();
        this.startLater(connection);
      });
    });
    const start = () => route(request, response);
    const exchange: Exchange = { ...received, responded, start };
    return exchange;
  }

  private hold(bytes: number, connection: Connection): void {
    connection.pipelinedBytes += bytes;
    this.pipelinedBytes += bytes;
  }

  /** One of each connection in turn. Those that may not start yet follow when another request of theirs has its response. */
  private startWaiting(): void {
    let started = 0;
    for (const connection of this.due) {
      this.due.delete(connection);
      const [next] = connection.waiting;
      if (!next || !mayStart(next, connection) || next.request.socket.destroyed) continue;
      connection.waiting.shift();
      connection.active.add(next);
      next.start();
      this.due.add(connection);
      started += 1;
      if (started === MAX_STARTED) return;
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

/** The memory of a waiting request; measured were 5 KiB without headers and 34 KiB with 16 KiB in 126 fields. */
function bytesOf({ url = '', rawHeaders }: IncomingMessage): number {
  return rawHeaders.reduce((bytes, text) => bytes + STRING_BYTES + text.length, REQUEST_BYTES + url.length);
}
