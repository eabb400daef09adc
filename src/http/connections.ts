import { AsyncResource } from 'node:async_hooks';
import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Node pauses a socket whose answers are not taken, but only between two reads: one read of 64 KiB holds 2,000 requests, and
 * all of them were begun before the pause (measured: 26 KB of pipelined requests for an asset took 577 MiB). So no more than
 * these are in work for one connection; the others wait for their turn, at 6 KiB each, as long as they are not too many on
 * one connection, or on all of them. Then the connection is closed.
 */
export const MAX_IN_WORK = 16;
export const MAX_WAITING = { onOne: 1_000, onAll: 10_000 };

/** Why the service closes a connection, or does not take it. */
export type ClosedFor = 'pipelined' | 'stalled' | 'limit';

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** When its answer has been written, or never will be. */
  readonly answered: Promise<void>;
  begin(): void;
}

interface Connection {
  readonly inWork: Set<Exchange>;
  /** Behind them, in the order they came. */
  readonly waiting: Exchange[];
  /** It takes no more requests. */
  ending: boolean;
}

type Route = (request: IncomingMessage, response: ServerResponse) => void;

/** What is bounded per connection, and the connections themselves: nobody needs a key to open one. */
export class Connections {
  private readonly open = new Map<Socket, Connection>();
  /** On all connections. */
  waitingRequests = 0;

  constructor(
    private readonly limits: { readonly connectionsLimit: number; readonly writeTimeout: number },
    private readonly closed: (reason: ClosedFor) => void,
  ) {}

  /** In place of the server's own way from a request to `route`. */
  watch(server: HttpServer, route: Route): void {
    server.maxConnections = this.limits.connectionsLimit;
    server.on('drop', () => this.closed('limit'));
    server.on('connection', (socket) => this.add(socket));
    server.removeAllListeners('request');
    const take: Route = (request, response) => this.take(request, response, route);
    server.on('request', take);
    // An `Expect` that Node does not know is ignored; it would refuse it by itself, without a body.
    server.on('checkExpectation', take);
    server.setTimeout(this.limits.writeTimeout, (socket) => this.onSilence(server, socket));
  }

  get sockets(): Iterable<Socket> {
    return this.open.keys();
  }

  get size(): number {
    return this.open.size;
  }

  /**
   * Runs `last` once, on a connection that takes no more requests, behind the answers to those that had arrived whole: an
   * answer that overtakes them would be taken for theirs.
   */
  end(socket: Socket, last: () => void): void {
    const connection = this.open.get(socket);
    if (connection?.ending) return;
    if (connection) connection.ending = true;
    this.closeUnlessRead(socket);
    const whole = this.wholeOn(socket);
    if (whole.length === 0) last();
    else
      void Promise.all(whole.map(({ answered }) => answered)).then(() => {
        if (!socket.destroyed) last();
      });
  }

  /** Whether requests that arrived whole are not answered yet. */
  isAwaited(socket: Socket): boolean {
    return this.wholeOn(socket).length > 0;
  }

  private wholeOn(socket: Socket): Exchange[] {
    const { inWork = [], waiting = [] } = this.open.get(socket) ?? {};
    return [...inWork, ...waiting].filter(({ request }) => request.complete);
  }

  private add(socket: Socket): void {
    const connection: Connection = { inWork: new Set(), waiting: [], ending: false };
    this.open.set(socket, connection);
    socket.once('close', () => {
      this.open.delete(socket);
      const waiting = connection.waiting.splice(0);
      this.waitingRequests -= waiting.length;
      // Node emits no `close` for a response whose turn on the socket never came; whoever waits for it would wait for ever.
      for (const { response } of [...connection.inWork, ...waiting])
        if (!response.socket) response.emit('close');
    });
  }

  private take(request: IncomingMessage, response: ServerResponse, route: Route): void {
    const { socket } = request;
    const connection = this.open.get(socket);
    if (!connection || socket.destroyed) return;
    const exchange = this.exchangeOf(connection, request, response, route);
    if (connection.waiting.length === 0 && mayBegin(exchange, connection)) {
      connection.inWork.add(exchange);
      exchange.begin();
      return;
    }
    if (connection.waiting.length >= MAX_WAITING.onOne || this.waitingRequests >= MAX_WAITING.onAll) {
      this.closed('pipelined');
      socket.destroy();
      return;
    }
    connection.waiting.push(exchange);
    this.waitingRequests++;
  }

  private exchangeOf(
    connection: Connection,
    request: IncomingMessage,
    response: ServerResponse,
    route: Route,
  ): Exchange {
    const answered = new Promise<void>((resolve) => {
      response.once('close', () => {
        connection.inWork.delete(exchange);
        resolve();
        this.beginNext(connection);
      });
    });
    // Whoever makes room for it begins it, and its trace must not become that one's.
    const begin = AsyncResource.bind(() => route(request, response));
    const exchange: Exchange = { request, response, answered, begin };
    return exchange;
  }

  private beginNext(connection: Connection): void {
    for (let [next] = connection.waiting; next && mayBegin(next, connection); [next] = connection.waiting) {
      if (next.request.socket.destroyed) return;
      connection.waiting.shift();
      this.waitingRequests--;
      connection.inWork.add(next);
      next.begin();
    }
  }

  /** Node's timer: nothing came, and nothing of what is to be written was taken, for as long as it was set. */
  private onSilence(server: HttpServer, socket: Socket): void {
    const stalled = socket.writableLength > 0;
    // Between two requests Node sets the timer to the time that a connection is kept alive.
    const kept = this.open.get(socket)?.inWork.size === 0 && socket.timeout !== server.timeout;
    if (stalled) this.closed('stalled');
    if (stalled || kept) socket.destroy();
  }

  /** What still comes on a connection that is over winds up Node's timer again and again. */
  private closeUnlessRead(socket: Socket): void {
    const timer = setInterval(() => {
      if (socket.writableLength === 0) return;
      this.closed('stalled');
      socket.destroy();
    }, this.limits.writeTimeout).unref();
    socket.once('close', () => clearInterval(timer));
  }
}

/** What is read can be large, and would wait in memory for the answers before it. */
function mayBegin({ request: { method } }: Exchange, { inWork }: Connection): boolean {
  return method === 'GET' || method === 'HEAD' ? inWork.size === 0 : inWork.size < MAX_IN_WORK;
}
