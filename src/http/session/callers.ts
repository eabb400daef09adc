import { Injectable } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import { bearerToken, type Caller, unauthenticated } from '../access.ts';
import { ApiKeys } from '../keys/api-keys.ts';
import type { Authenticator } from '../server.ts';
import { rejectOtherSites, rejectPagesOfOtherSites } from './same-origin.ts';
import { sessionCookiesOf } from './session-cookie.ts';
import { Sessions } from './sessions.ts';

export interface Authenticated {
  readonly caller: Caller;
  /** When the session ends; undefined without one. */
  readonly expiresAt?: Date;
}

/** Finds who makes a request: by its api key, else by the cookie of its session. */
@Injectable()
export class Callers implements Authenticator {
  constructor(
    private readonly apiKeys: ApiKeys,
    private readonly sessions: Sessions,
  ) {}

  get anonymous(): Caller | undefined {
    return this.apiKeys.anonymous;
  }

  /** Throws a 401, or a 403 if a page of another site tries to use the session or the key. */
  async authenticate(request: FastifyRequest): Promise<Authenticated> {
    if (this.anonymous) return { caller: this.anonymous };
    const cookies = request.headers.authorization === undefined ? sessionCookiesOf(request) : [];
    if (cookies.length > 0) {
      rejectOtherSites(request);
      const session = await this.sessions.find(cookies);
      if (session) return { ...session, caller: { ...session.caller, session: session.cookie.value } };
      throw unauthenticated('The session is over. Sign in again, or send an API key.');
    }
    const caller = await this.apiKeys.callerOf(bearerToken(request));
    if (caller) {
      rejectPagesOfOtherSites(request);
      return { caller };
    }
    throw unauthenticated('The API key is unknown or revoked.');
  }
}
