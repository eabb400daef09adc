import { Body, Controller, Delete, Get, HttpCode, Inject, Post, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiProperty, ApiResponse, ApiTags } from '@nestjs/swagger';
import { IsString, Length } from 'class-validator';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { VERSION } from '../../version.ts';
import { Allow, unauthenticated } from '../access.ts';
import { validBody } from '../valid-body.ts';
import { type Authenticated, Callers } from './callers.ts';
import { rejectOtherSites } from './same-origin.ts';
import { SESSION } from './session.openapi.ts';
import { sessionCookiesOf, setSessionCookie } from './session-cookie.ts';
import { Sessions } from './sessions.ts';

export class StartSession {
  @ApiProperty({ description: 'An API key.' })
  @IsString()
  @Length(1, 300)
  key: string;
}

/** Sign-in for browsers: the cookie of a session stands for the api key, with the scopes of that key. */
@ApiTags('operations')
@Controller('v1/session')
export class SessionController {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly callers: Callers,
    private readonly sessions: Sessions,
  ) {}

  @Post()
  @HttpCode(200)
  @Allow('console')
  @ApiOperation({
    summary: 'Sign in with an API key: the response sets a cookie that stands for the key for 12 hours.',
    description:
      'The session ends earlier if the key is revoked. With a cookie, requests that change something are accepted only from pages of this host.',
  })
  @ApiResponse({ status: 200, schema: SESSION, description: 'Signed in; the cookie is set.' })
  @ApiResponse({ status: 401, description: 'The key is unknown or revoked.' })
  async start(
    @Body(validBody(StartSession)) { key }: StartSession,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    // Another site could sign its visitors in with a key of its own, and read what they then do.
    if (request.headers['sec-fetch-site'] !== undefined) rejectOtherSites(request);
    const session = await this.sessions.start(key, request);
    if (!session) throw unauthenticated('The API key is unknown or revoked.');
    void reply.header('set-cookie', setSessionCookie(request, session.cookie.name, session.cookie.value));
    return this.viewOf(session);
  }

  @Get()
  @Allow('console')
  @ApiOperation({ summary: 'Who is signed in, with which scopes, and where.' })
  @ApiResponse({ status: 200, description: 'The caller.', schema: SESSION })
  @ApiResponse({ status: 401, description: 'Nobody is signed in.' })
  async read(@Req() request: FastifyRequest) {
    return this.viewOf(await this.callers.authenticate(request));
  }

  @Delete()
  @HttpCode(204)
  @Allow('console', 'none')
  @ApiOperation({ summary: 'Sign out: the cookie is removed.' })
  @ApiResponse({ status: 204, description: 'Signed out.' })
  async end(@Req() request: FastifyRequest, @Res({ passthrough: true }) reply: FastifyReply): Promise<void> {
    if (request.headers['sec-fetch-site'] !== undefined) rejectOtherSites(request);
    const names = await this.sessions.namesOf(sessionCookiesOf(request), request);
    const removed = names.map((name) => setSessionCookie(request, name, undefined));
    void reply.header('set-cookie', removed);
  }

  private viewOf({ caller, expiresAt }: Authenticated) {
    return {
      name: caller.name,
      scopes: caller.scopes,
      open: this.callers.anonymous !== undefined,
      environment: this.settings.environment ?? null,
      version: VERSION,
      expiresAt: expiresAt ?? null,
    };
  }
}
