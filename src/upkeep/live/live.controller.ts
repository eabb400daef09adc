import { Controller, Get, Req, Res } from '@nestjs/common';
import { ApiExtension, ApiOperation, ApiProduces, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Allow, permits } from '../../http/access.ts';
import { Problem } from '../../http/problems.ts';
import { queryOf } from '../../http/query.ts';
import { Callers } from '../../http/session/callers.ts';
import { SNAPSHOT } from './live.openapi.ts';
import { LiveStreams, type StreamOwner } from './live-streams.ts';
import { Viewer } from './viewer.ts';

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  // Otherwise nginx collects events until its buffer is full.
  'x-accel-buffering': 'no',
};
/** Of one browser. */
const MAX_PER_SESSION = 8;
/** Behind a proxy that signs people in, everybody has the same key. It leaves room for others. */
const MAX_PER_KEY = 100;
/** A browser connects again after this time. */
const RECONNECT_MS = 1_000;

@ApiTags('operations')
@Controller('v1/live')
export class LiveController {
  constructor(
    private readonly streams: LiveStreams,
    private readonly callers: Callers,
  ) {}

  @Get()
  @Allow('read')
  @ApiOperation({
    summary: 'A stream of snapshots, one per second: the backlog, what needs an operator, and rates.',
    description:
      'Server-sent events. `snapshot` (the schema LiveSnapshot): `at`, `backlog` as GET /v1/backlog, `attention` as GET /v1/attention, and `rates` over all replicas. `outage`: the database cannot be read at the moment; the stream continues. A client that reads slowly misses snapshots, and gets the newest one next. At most 8 streams per session, and 100 per API key.',
  })
  @ApiProduces('text/event-stream')
  @ApiExtension('x-event-snapshot', SNAPSHOT)
  @ApiResponse({
    status: 200,
    schema: { type: 'string' },
    description: 'The stream, until either side ends it.',
  })
  @ApiResponse({ status: 429, description: 'The session has 8 streams, or the API key 100.' })
  @ApiResponse({ status: 503, description: 'The replica has 200 streams, or is about to stop.' })
  open(@Req() request: FastifyRequest, @Res() reply: FastifyReply): void {
    queryOf(request.query, []);
    if (request.method === 'HEAD') return void reply.headers(HEADERS).send();
    const owner = ownerOf(request);
    this.streams.refuseMore(owner);
    reply.hijack();
    const { raw } = reply;
    const headers = { ...reply.getHeaders(), ...HEADERS };
    for (const [name, value] of Object.entries(headers)) if (value !== undefined) raw.setHeader(name, value);
    raw.writeHead(200);
    raw.write(`retry: ${RECONNECT_MS}\n\n`);
    const viewer = new Viewer(owner.id, raw, () => this.isAllowed(request));
    raw.once('close', () => this.streams.remove(viewer));
    this.streams.add(viewer);
  }

  /** If the database is away, it is not known whether the key was revoked: the stream stays. */
  private async isAllowed(request: FastifyRequest): Promise<boolean> {
    try {
      const { caller } = await this.callers.authenticate(request);
      return permits(caller, 'read');
    } catch (error) {
      return !(error instanceof Problem);
    }
  }
}

/** A caller with an API key cannot claim to be many by cookies: they count only if one was authenticated. */
function ownerOf(request: FastifyRequest): StreamOwner {
  const { name, session } = request.caller;
  return session === undefined
    ? { id: name, maxStreams: MAX_PER_KEY }
    : { id: session, maxStreams: MAX_PER_SESSION };
}
