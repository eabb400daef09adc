import { Injectable } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import type { LiveKey } from '../keys/api-key-store.ts';
import { ApiKeys } from '../keys/api-keys.ts';
import {
  provesSession,
  readSession,
  SESSION_SECONDS,
  type SessionCookie,
  sessionCookieName,
  signedSession,
} from './session-cookie.ts';
import { SessionKeys } from './session-keys.ts';

export interface Session {
  readonly caller: LiveKey;
  readonly expiresAt: Date;
  readonly cookie: SessionCookie;
}

/** Signs people in with an api key, for a browser that keeps a cookie instead of the key. */
@Injectable()
export class Sessions {
  constructor(
    private readonly apiKeys: ApiKeys,
    private readonly keys: SessionKeys,
  ) {}

  /** Undefined if the api key is unknown or revoked. */
  async start(token: string, request: FastifyRequest): Promise<Session | undefined> {
    const caller = await this.apiKeys.callerOf(token);
    if (!caller) return undefined;
    const expiresAt = new Date(Math.floor(Date.now() / 1000 + SESSION_SECONDS) * 1000);
    const key = await this.keys.signing();
    const value = signedSession(caller, expiresAt, key);
    return { caller, expiresAt, cookie: { name: sessionCookieName(request, key), value } };
  }

  /** The first one that is valid. */
  async find(cookies: readonly SessionCookie[]): Promise<Session | undefined> {
    for (const cookie of cookies) {
      const session = await this.sessionOf(cookie);
      if (session) return session;
    }
    return undefined;
  }

  /** The names of the cookies that a sign-out removes: not those of another service on this host. */
  async namesOf(cookies: readonly SessionCookie[], request: FastifyRequest): Promise<string[]> {
    const names = new Set((await this.keys.all()).map((key) => sessionCookieName(request, key)));
    for (const cookie of cookies) if (await this.sessionOf(cookie)) names.add(cookie.name);
    return [...names];
  }

  /** Undefined if it is forged or over, or if its api key was revoked or has another secret now. */
  private async sessionOf(cookie: SessionCookie): Promise<Session | undefined> {
    const claim = readSession(cookie.value);
    if (!claim || claim.expiresAt.getTime() <= Date.now()) return undefined;
    const caller = await this.apiKeys.live(claim.keyId);
    if (!caller) return undefined;
    const keys = await this.keys.all();
    return keys.some((key) => provesSession(claim, caller, key))
      ? { caller, expiresAt: claim.expiresAt, cookie }
      : undefined;
  }
}
