import { Injectable } from '@nestjs/common';
import type { LiveKey } from '../keys/api-key-store.ts';
import { ApiKeys } from '../keys/api-keys.ts';
import { provesSession, readSession, SESSION_SECONDS, signedSession } from './session-cookie.ts';
import { SessionKeys } from './session-keys.ts';

export interface Session {
  readonly caller: LiveKey;
  readonly expiresAt: Date;
}

/** Signs people in with an api key, for a browser that keeps a cookie instead of the key. */
@Injectable()
export class Sessions {
  constructor(
    private readonly apiKeys: ApiKeys,
    private readonly keys: SessionKeys,
  ) {}

  /** Returns the session and its cookie; undefined if the api key is unknown or revoked. */
  async start(token: string): Promise<(Session & { cookie: string }) | undefined> {
    const caller = await this.apiKeys.callerOf(token);
    if (!caller) return undefined;
    const expiresAt = new Date(Math.floor(Date.now() / 1000 + SESSION_SECONDS) * 1000);
    const cookie = signedSession(caller, expiresAt, await this.keys.signing());
    return { caller, expiresAt, cookie };
  }

  /** Undefined if it is forged or over, or if its api key was revoked or has another secret now. */
  async find(cookie: string): Promise<Session | undefined> {
    const claim = readSession(cookie);
    if (!claim || claim.expiresAt.getTime() <= Date.now()) return undefined;
    const caller = await this.apiKeys.live(claim.keyId);
    if (!caller) return undefined;
    const keys = await this.keys.all();
    return keys.some((key) => provesSession(claim, caller, key))
      ? { caller, expiresAt: claim.expiresAt }
      : undefined;
  }
}
