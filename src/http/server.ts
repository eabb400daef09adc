import type { Socket } from 'node:net';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifyServerOptions } from 'fastify';
import type { Scope } from '../config/api-keys-variable.ts';
import { isLoopback, type Settings } from '../config/settings.ts';
import { codeOf } from '../database/errors.ts';
import type { Log } from '../telemetry/logger.ts';
import { type Access, type Caller, permits } from './access.ts';
import { addBodyParsers, BodiesInFlight } from './body.ts';
import { Connections, MAX_HEADER_FIELDS } from './connections.ts';
import type { CalledRoute, HttpMetrics } from './http-metrics.ts';
import { isServerError, problemOf } from './problem-of.ts';
import { PROBLEM_MEDIA_TYPE, Problem, retryAfter } from './problems.ts';
import { REQUEST_ID_HEADER, requestId } from './request-id.ts';
import type { ResponsesInFlight } from './responses-in-flight.ts';
import { RouteTable } from './routes.ts';

/** Long enough for a message id of 200 characters, percent-encoded. */
const MAX_PATH_SEGMENT = 3_000;

/** The HTTP parser's error codes for data after "Connection: close" and for a connection that ends within a request. */
const DATA_AFTER_CLOSE = 'HPE_CLOSED_CONNECTION';
const UNEXPECTED_EOF = 'HPE_INVALID_EOF_STATE';

/** While stopping: how long a connection may stay idle after a response before it is closed. */
const IDLE_CLOSE_DELAY_MS = 100;
/** While stopping: how long a connection that has sent nothing stays open, for a request that is still in transit. */
const UNUSED_SOCKET_GRACE_MS = 1_000;

/** A larger body is not read to its end: its connection is closed. */
const MAX_DISCARDED_BYTES = 64 * 1024 * 1024;

/** Finds the caller that makes a request. */
export interface Authenticator {
  /** Throws a 401 if there is none. */
  authenticate(request: FastifyRequest): Promise<{ readonly caller: Caller }>;
  /** Set if no api key is configured: every request from this machine is made by this caller. */
  readonly anonymous: Caller | undefined;
}

/** Fastify with everything that applies to all routes: request ids, bodies, access, problems. */
export class Server {
  readonly adapter: FastifyAdapter;
  readonly routes: RouteTable;
  private authenticator: Authenticator | undefined;
  private metrics: HttpMetrics | undefined;
  private readonly bodies: BodiesInFlight;
  private responses: ResponsesInFlight | undefined;
  private readonly connections: Connections;
  private closingConnections = false;
  private stopping = false;

  constructor(
    private readonly settings: Settings,
    private readonly log: Log,
  ) {
    this.routes = new RouteTable(settings.batchBodyLimit);
    this.bodies = new BodiesInFlight(settings.bodiesLimit);
    this.connections = new Connections(settings, (reason) => this.metrics?.connectionClosed(reason));
    this.adapter = new FastifyAdapter({
      bodyLimit: settings.bodyLimit,
      requestTimeout: settings.requestTimeout,
      http: {
        headersTimeout: settings.requestTimeout,
        connectionsCheckingInterval: Math.min(1_000, settings.requestTimeout),
        maxHeaderSize: 16_384,
        // Node would send a 400 without a body; `admit` throws a problem instead.
        requireHostHeader: false,
      },
      keepAliveTimeout: 72_000,
      forceCloseConnections: 'idle',
      return503OnClosing: false,
      routerOptions: { maxParamLength: MAX_PATH_SEGMENT, ignoreTrailingSlash: true },
      genReqId: requestId,
      requestIdHeader: false,
      logger: false,
      frameworkErrors: ((error: Error, request: FastifyRequest, reply: FastifyReply) =>
        this.reply(error, request, reply)) as NonNullable<FastifyServerOptions['frameworkErrors']>,
      clientErrorHandler: (error, socket) => this.replyToBrokenRequest(error, socket),
    });
    this.prepare(this.adapter.getInstance());
  }

  /** Set later than the constructor: api keys are in the database, which is connected when the application starts. */
  authenticateWith(authenticator: Authenticator): void {
    this.authenticator = authenticator;
  }

  measureWith(metrics: HttpMetrics): void {
    this.metrics = metrics;
    metrics.countConnections(() => this.connections.size);
  }

  limitResponsesWith(responses: ResponsesInFlight): void {
    this.responses = responses;
  }

  /** Of another server in this process: BODIES_LIMIT and RESPONSES_LIMIT are for both together. */
  shareLimitsOf({ bodies, responses }: Server): void {
    this.bodies.shareWith(bodies);
    if (responses) this.responses?.shareWith(responses);
  }

  /** Closes every connection with its next response, so that keep-alive clients reconnect to another replica. */
  closeAfterReply(): void {
    this.closingConnections = true;
  }

  /** Sends the problem for anything that was thrown. */
  reply(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
    if (isClientGone(error, request)) return;
    const problem = this.orMethodNotAllowed(problemOf(error), request);
    if (isServerError(problem, error)) {
      this.log.error(
        {
          event: `http.${problem.problem}`,
          requestId: request.id,
          ...routeOf(request),
          error,
        },
        'a request failed',
      );
    }
    this.metrics?.problem(problem.problem, routeOf(request));
    if (problem.problem === 'too-large' && !this.closingConnections && mayDiscardBody(request))
      reply.removeHeader('connection');
    void reply
      .code(problem.status)
      .headers({ ...problem.more.headers, [REQUEST_ID_HEADER]: request.id })
      .type(PROBLEM_MEDIA_TYPE)
      .serializer(String)
      .send(JSON.stringify(problem));
  }

  private prepare(fastify: FastifyInstance): void {
    this.routes.attach(fastify);
    addBodyParsers(fastify);
    fastify.decorateRequest('caller');
    fastify.addHook('onRequest', (request, reply) => this.admit(request, reply));
    fastify.addHook('preParsing', (request, reply, payload, done) => {
      try {
        if (request.method !== 'GET' && request.method !== 'HEAD') this.bodies.track(request, reply, payload);
      } catch (error) {
        return done(error as Error);
      }
      done();
    });
    fastify.addHook('onSend', (_request, reply, payload, done) => {
      try {
        done(null, this.responses ? this.responses.track(payload, reply) : payload);
      } catch (error) {
        done(error as Error);
      }
    });
    fastify.addHook('onResponse', (request, reply, done) => {
      if (!isEventStream(reply))
        this.metrics?.response(routeOf(request), reply.statusCode, reply.elapsedTime);
      // A response to a request from before the stop had no `connection: close`; its client would keep the connection.
      if (this.stopping) setTimeout(() => fastify.server.closeIdleConnections(), IDLE_CLOSE_DELAY_MS);
      done();
    });
    fastify.addHook('preClose', async () => {
      this.stopping = true;
      setTimeout(() => this.destroyIdleSockets(), UNUSED_SOCKET_GRACE_MS);
    });
    this.connections.attach(fastify.server, (request, response) => fastify.routing(request, response));
    // Rejects CONNECT, to which Node would not respond at all.
    fastify.server.on('connect', (_request, socket) =>
      this.replyToBrokenRequest(new Error(), socket as Socket),
    );
  }

  /**
   * Node's close() waits forever for a connection that never sent a request, as load balancers and browsers open them in
   * advance.
   */
  private destroyIdleSockets(): void {
    for (const socket of this.connections.sockets) if (socket.bytesRead === 0) socket.destroy();
  }

  private replyToBrokenRequest(error: Error & { code?: string }, socket: Socket): void {
    // A client that disconnects within a request does not read the responses to earlier requests either.
    const isGone = error.code === UNEXPECTED_EOF && this.connections.hasPendingResponses(socket);
    if (isGone || error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
      return;
    }
    this.connections.closeAfterResponses(socket, () => {
      // All requests have their responses, and no client expects one to data after "Connection: close".
      if (error.code === DATA_AFTER_CLOSE) return socket.destroySoon();
      this.metrics?.problem(replyOnSocket(error, socket).problem, undefined);
    });
  }

  private async admit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    reply.header(REQUEST_ID_HEADER, request.id).header('x-content-type-options', 'nosniff');
    if (this.closingConnections) reply.header('connection', 'close');
    if (this.stopping)
      throw new Problem('stopping', 'This replica is shutting down. Retry the request.', retryAfter(1));
    if (request.raw.rawHeaders.length > 2 * MAX_HEADER_FIELDS)
      throw new Problem('header-too-large', `The request has more than ${MAX_HEADER_FIELDS} header fields.`);
    if (request.headers.host === undefined && request.raw.httpVersion === '1.1') {
      throw new Problem('bad-request', 'The Host header is missing.');
    }
    const declared = request.routeOptions.config.access ?? 'public';
    if (declared !== 'public' && declared !== 'metrics') this.rejectWithoutApiRole();
    if (declared !== 'public' && this.authenticator?.anonymous) rejectForeignOrigins(request);
    const access = this.scopeOf(declared);
    if (access === 'public') return;
    const { caller } = await this.authenticator!.authenticate(request);
    if (!permits(caller, access))
      throw new Problem('forbidden', `This route requires the scope "${access}".`);
    request.caller = caller;
  }

  private rejectWithoutApiRole(): void {
    if (this.settings.roles.includes('api')) return;
    throw new Problem(
      'not-found',
      'This replica serves only health, metrics and /docs: its ROLES do not include "api".',
    );
  }

  private scopeOf(access: Access): Scope | 'public' {
    if (access === 'console') return 'public';
    if (access !== 'metrics') return access;
    return this.settings.metricsAccess === 'keyed' ? 'read' : 'public';
  }

  /** Turns a 404 into a 405 if the path exists with other methods. */
  private orMethodNotAllowed(problem: Problem, request: FastifyRequest): Problem {
    if (problem.problem !== 'not-found' || request.routeOptions.url !== undefined) return problem;
    const methods = this.routes.methodsOf(request.url.split('?')[0]!);
    if (methods.length === 0) return problem;
    const allow = methods.join(', ');
    return new Problem('method-not-allowed', `Allowed methods: ${allow}.`, { headers: { allow } });
  }
}

/**
 * Without api keys every process on this machine may do everything, and that includes a browser with a hostile page. The
 * page is recognized by its Origin header or, if its own host name was made to resolve to this machine (DNS rebinding), by
 * the Host header.
 */
function rejectForeignOrigins({ headers: { host = '', origin } }: FastifyRequest): void {
  const name = host.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
  if (isLoopback(name) && (origin === undefined || origin === `http://${host}`)) return;
  throw new Problem(
    'forbidden',
    'Without API_KEYS the service accepts only local requests, sent to localhost.',
  );
}

/** Its response lasts as long as the client wants: it says nothing about how long requests take. */
function isEventStream({ raw }: FastifyReply): boolean {
  return String(raw.getHeader('content-type')).startsWith('text/event-stream');
}

function routeOf({ method, routeOptions }: FastifyRequest): CalledRoute {
  return { method, route: routeOptions.url ?? '(none)' };
}

/**
 * Fastify closes the connection of a request that is too large while the client is still sending: many clients then report
 * a broken pipe instead of the response. Without the close, Node reads and discards the rest of the body.
 */
function mayDiscardBody({ headers }: FastifyRequest): boolean {
  return Number(headers['content-length']) <= MAX_DISCARDED_BYTES;
}

/** The client disconnected while it sent the body: there is no one to respond to, and nothing to log. */
function isClientGone(error: unknown, request: FastifyRequest): boolean {
  return codeOf(error) === 'ECONNRESET' && request.raw.readableAborted;
}

/** For input that could not be parsed as a request: there is no reply object, only the socket. */
function replyOnSocket(error: Error & { code?: string }, socket: Socket): Problem {
  const found = problemOf(error);
  const problem =
    found.problem === 'internal' ? new Problem('bad-request', 'The request is not valid HTTP.') : found;
  const body = JSON.stringify(problem);
  socket.write(
    `HTTP/1.1 ${problem.status} ${problem.toJSON().title}\r\ncontent-type: ${PROBLEM_MEDIA_TYPE}\r\n` +
      `${REQUEST_ID_HEADER}: ${requestId({ headers: {} })}\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
  // Not end(): a client that keeps its side open would keep the connection open.
  socket.destroySoon();
  return problem;
}
