import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Requests of one connection that may be unanswered at a time. Node pauses a socket whose answers are not taken, but only
 * between two reads: one read of 64 KiB holds 2,000 requests, and all of them are begun before the pause (measured: 26 KB of
 * pipelined requests for an asset took 577 MiB). Whoever sends more without waiting is disconnected.
 */
export const MAX_UNANSWERED = 16;

/** Why the service closes a connection, or does not take it. */
export type ClosedFor = 'pipelined' | 'stalled' | 'limit';

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** When its answer has been written, or never will be. */
  readonly answered: Promise<void>;
}

interface Connection {
  readonly unanswered: Set<Exchange>;
  /** It takes no more requests. */
  ending: boolean;
}

type Route = (request: IncomingMessage, response: ServerResponse) => void;

/** What is bounded per connection, and the connections themselves: nobody needs a key to open one. */
export class Connections {
  private readonly open = new Map<Socket, Connection>();

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
    const unanswered = this.open.get(socket)?.unanswered ?? [];
    return [...unanswered].filter(({ request }) => request.complete);
  }

  private add(socket: Socket): void {
    const connection = { unanswered: new Set<Exchange>(), ending: false };
    this.open.set(socket, connection);
    socket.once('close', () => {
      this.open.delete(socket);
      // Node emits no `close` for a response whose turn on the socket never came; whoever waits for it would wait for ever.
      for (const { response } of connection.unanswered) if (!response.socket) response.emit('close');
    });
  }

  private take(request: IncomingMessage, response: ServerResponse, route: Route): void {
    const { socket } = request;
    const connection = this.open.get(socket);
    if (!connection || socket.destroyed) return;
    if (connection.unanswered.size >= MAX_UNANSWERED) {
      this.closed('pipelined');
      socket.destroy();
      return;
    }
    const before = [...connection.unanswered].at(-1);
    this.expectAnswer(connection, request, response);
    // What is read can be large, and would wait in memory for the answers before it.
    if (before && (request.method === 'GET' || request.method === 'HEAD')) {
      void before.answered.then(() => {
        if (!socket.destroyed) route(request, response);
      });
    } else route(request, response);
  }

  private expectAnswer(connection: Connection, request: IncomingMessage, response: ServerResponse): void {
    const answered = new Promise<void>((resolve) => {
      response.once('close', () => {
        connection.unanswered.delete(exchange);
        resolve();
      });
    });
    const exchange: Exchange = { request, response, answered };
    connection.unanswered.add(exchange);
  }

  /** Node's timer: nothing came, and nothing of what is to be written was taken, for as long as it was set. */
  private onSilence(server: HttpServer, socket: Socket): void {
    const stalled = socket.writableLength > 0;
    // Between two requests Node sets the timer to the time that a connection is kept alive.
    const kept = this.open.get(socket)?.unanswered.size === 0 && socket.timeout !== server.timeout;
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
