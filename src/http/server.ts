import type { Socket } from 'node:net';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifyServerOptions } from 'fastify';
import type { Scope } from '../config/api-keys-variable.ts';
import { isLoopback, type Settings } from '../config/settings.ts';
import { codeOf } from '../database/faults.ts';
import type { Log } from '../telemetry/logger.ts';
import { type Access, bearerToken, type Caller, permits, unauthenticated } from './access.ts';
import { BodiesInFlight } from './bodies-in-flight.ts';
import { readBodies } from './body.ts';
import { Connections } from './connections.ts';
import type { Called, HttpMetrics } from './http-metrics.ts';
import { isFaultOfOurs, problemOf } from './problem-of.ts';
import { PROBLEM_MEDIA_TYPE, Problem, retryAfter } from './problems.ts';
import { REQUEST_ID_HEADER, requestId } from './request-id.ts';
import { RouteTable } from './routes.ts';

/** Long enough for a message id of 200 characters, percent-encoded. */
const MAX_PATH_PART = 3_000;

/** How the parser calls what comes behind "Connection: close", and an end in the middle of a request. */
const DATA_AFTER_CLOSE = 'HPE_CLOSED_CONNECTION';
const HUNG_UP = 'HPE_INVALID_EOF_STATE';

/** Between an answer and the next request of one who sends them without waiting. */
const PAUSE_MS = 100;
/** A request that was on its way when we stopped to listen has come by then. */
const SILENCE_MS = 1_000;

/** Who a token belongs to; undefined for nobody. */
export interface Gatekeeper {
  callerOf(token: string): Promise<Caller | undefined>;
  /** Set when no key is configured at all: everybody on this machine is this caller. */
  readonly everybody: Caller | undefined;
}

/** Fastify with what holds for every route: ids, bodies, access, problems. */
export class Server {
  readonly adapter: FastifyAdapter;
  readonly routes: RouteTable;
  private gatekeeper: Gatekeeper | undefined;
  private metrics: HttpMetrics | undefined;
  private readonly bodies: BodiesInFlight;
  private readonly connections: Connections;
  private parting = false;
  private stopping = false;

  constructor(
    private readonly settings: Settings,
    private readonly log: Log,
  ) {
    this.routes = new RouteTable(settings.batchBodyLimit);
    this.bodies = new BodiesInFlight(settings.bodiesLimit);
    this.connections = new Connections(settings, (reason) => this.metrics?.closed(reason));
    this.adapter = new FastifyAdapter({
      bodyLimit: settings.bodyLimit,
      requestTimeout: settings.requestTimeout,
      http: {
        headersTimeout: settings.requestTimeout,
        connectionsCheckingInterval: Math.min(1_000, settings.requestTimeout),
        maxHeaderSize: 16_384,
        // Node would answer by itself, without a body; `admit` refuses it as a problem.
        requireHostHeader: false,
      },
      keepAliveTimeout: 72_000,
      forceCloseConnections: 'idle',
      return503OnClosing: false,
      routerOptions: { maxParamLength: MAX_PATH_PART, ignoreTrailingSlash: true },
      genReqId: requestId,
      requestIdHeader: false,
      logger: false,
      frameworkErrors: ((error: Error, request: FastifyRequest, reply: FastifyReply) =>
        this.reply(error, request, reply)) as NonNullable<FastifyServerOptions['frameworkErrors']>,
      clientErrorHandler: (error, socket) => this.replyToBrokenRequest(error, socket),
    });
    this.prepare(this.adapter.getInstance());
  }

  /** Api keys live in the database, which is there only once the application is. */
  guardWith(gatekeeper: Gatekeeper): void {
    this.gatekeeper = gatekeeper;
  }

  measureWith(metrics: HttpMetrics): void {
    this.metrics = metrics;
    metrics.countConnections(() => this.connections.size);
  }

  /** Every connection ends with its next answer: whoever keeps one alive goes on elsewhere. */
  closeAfterReply(): void {
    this.parting = true;
  }

  /** What a caller sees of anything that was thrown. */
  reply(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
    if (isCallerGone(error, request)) return;
    const problem = this.orMethodNotAllowed(problemOf(error), request);
    if (isFaultOfOurs(problem, error)) {
      this.log.error(
        {
          event: `http.${problem.problem}`,
          requestId: request.id,
          ...calledBy(request),
          error,
        },
        'a request failed',
      );
    }
    this.metrics?.refused(problem.problem, calledBy(request));
    void reply
      .code(problem.status)
      .headers({ ...problem.more.headers, [REQUEST_ID_HEADER]: request.id })
      .type(PROBLEM_MEDIA_TYPE)
      .serializer(String)
      .send(JSON.stringify(problem));
  }

  private prepare(fastify: FastifyInstance): void {
    this.routes.watch(fastify);
    readBodies(fastify);
    fastify.decorateRequest('caller');
    fastify.addHook('onRequest', (request, reply) => this.admit(request, reply));
    fastify.addHook('preParsing', (request, reply, payload, done) => {
      try {
        if (request.method !== 'GET' && request.method !== 'HEAD') this.bodies.watch(request, reply, payload);
      } catch (error) {
        return done(error as Error);
      }
      done();
    });
    fastify.addHook('onResponse', (request, reply, done) => {
      this.metrics?.answered(calledBy(request), reply.statusCode, reply.elapsedTime);
      // One that was asked for before we began to stop was not told to hang up, and would be waited for.
      if (this.stopping) setTimeout(() => fastify.server.closeIdleConnections(), PAUSE_MS);
      done();
    });
    fastify.addHook('preClose', async () => {
      this.stopping = true;
      setTimeout(() => this.destroyIdleSockets(), SILENCE_MS);
    });
    this.connections.watch(fastify.server, (request, response) => fastify.routing(request, response));
    // A tunnel is refused; Node would not answer at all.
    fastify.server.on('connect', (_request, socket) =>
      this.replyToBrokenRequest(new Error(), socket as Socket),
    );
  }

  /** Node waits for ever for a connection on which nothing was ever asked: a load balancer's, a browser's ahead of time. */
  private destroyIdleSockets(): void {
    for (const socket of this.connections.sockets) if (socket.bytesRead === 0) socket.destroy();
  }

  private replyToBrokenRequest(error: Error & { code?: string }, socket: Socket): void {
    // One that hangs up in the middle of a request does not wait for the answers to those before it, either.
    const isGone = error.code === HUNG_UP && this.connections.isAwaited(socket);
    if (isGone || error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
      return;
    }
    this.connections.end(socket, () => {
      // What was asked for is answered; what came behind "Connection: close" is nothing that anybody waits for.
      if (error.code === DATA_AFTER_CLOSE) return socket.destroySoon();
      this.metrics?.refused(replyOnSocket(error, socket).problem, undefined);
    });
  }

  private async admit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    reply.header(REQUEST_ID_HEADER, request.id).header('x-content-type-options', 'nosniff');
    if (this.parting) reply.header('connection', 'close');
    if (this.stopping) throw new Problem('stopping', 'Ask another replica.', retryAfter(1));
    if (request.headers.host === undefined && request.raw.httpVersion === '1.1') {
      throw new Problem('bad-request', 'Send a Host header.');
    }
    const declared = request.routeOptions.config.access ?? 'public';
    if (declared !== 'public' && declared !== 'metrics') this.refuseWithoutTheRole();
    if (declared !== 'public' && this.gatekeeper?.everybody) refuseForeignOrigins(request);
    const access = this.scopeOf(declared);
    if (access === 'public') return;
    const caller = this.gatekeeper?.everybody ?? (await this.callerOf(request));
    if (!permits(caller, access)) throw new Problem('forbidden', `This needs the scope "${access}".`);
    request.caller = caller;
  }

  private refuseWithoutTheRole(): void {
    if (this.settings.roles.includes('api')) return;
    throw new Problem(
      'not-found',
      'This replica serves health, metrics and /docs only: ROLES does not name "api".',
    );
  }

  private scopeOf(access: Access): Scope | 'public' {
    if (access !== 'metrics') return access;
    return this.settings.metricsAccess === 'keyed' ? 'read' : 'public';
  }

  private async callerOf(request: FastifyRequest): Promise<Caller> {
    const caller = await this.gatekeeper?.callerOf(bearerToken(request));
    if (caller) return caller;
    throw unauthenticated('The api key is unknown or revoked.');
  }

  /** A path that exists with other methods is a 405, and says which. */
  private orMethodNotAllowed(problem: Problem, request: FastifyRequest): Problem {
    if (problem.problem !== 'not-found' || request.routeOptions.url !== undefined) return problem;
    const methods = this.routes.methodsOf(request.url.split('?')[0]!);
    if (methods.length === 0) return problem;
    const allow = methods.join(', ');
    return new Problem('method-not-allowed', `Use ${allow}.`, { headers: { allow } });
  }
}

/**
 * Without api keys everybody on this machine may do everything, and a browser on it runs the pages of strangers. One of
 * theirs is told by its origin, or, when its name was made to lead here, by the name it asks for.
 */
function refuseForeignOrigins({ headers: { host = '', origin } }: FastifyRequest): void {
  const name = host.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
  if (isLoopback(name) && (origin === undefined || origin === `http://${host}`)) return;
  throw new Problem(
    'forbidden',
    'Without API_KEYS only callers on this machine are served: ask for localhost.',
  );
}

function calledBy({ method, routeOptions }: FastifyRequest): Called {
  return { method, route: routeOptions.url ?? '(none)' };
}

/** The connection broke while the body was still coming: nobody is left to answer, and nothing is wrong here. */
function isCallerGone(error: unknown, request: FastifyRequest): boolean {
  return codeOf(error) === 'ECONNRESET' && request.raw.readableAborted;
}

/** The request never became one: there is no reply object, only the socket. */
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
  // Not end(): a caller that keeps its side open would keep the connection, too.
  socket.destroySoon();
  return problem;
}
