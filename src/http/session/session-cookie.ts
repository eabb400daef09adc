import { createHmac, timingSafeEqual } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import type { FastifyRequest } from 'fastify';

export const SESSION_SECONDS = 12 * 60 * 60;

/** The api key of a session; its secret hash is part of the signature, so a key with another secret has other sessions. */
export interface SessionKey {
  readonly id: string;
  readonly hash: Buffer;
}

/** What the value of a session cookie claims; only its signature proves it. */
export interface SessionClaim {
  readonly keyId: string;
  readonly expiresAt: Date;
  readonly signature: Buffer;
}

/** `<id of the api key>.<expiry in Unix seconds>.<signature>`. Nothing is stored: every replica can check it. */
export function signedSession(key: SessionKey, expiresAt: Date, signingKey: Buffer): string {
  const seconds = Math.floor(expiresAt.getTime() / 1000);
  return `${key.id}.${seconds}.${signatureOf(key, seconds, signingKey).toString('base64url')}`;
}

export function readSession(value: string): SessionClaim | undefined {
  const match = /^([A-Za-z0-9]{1,32})\.(\d{1,12})\.([\w-]{43})$/.exec(value);
  if (!match) return undefined;
  const [, keyId, seconds, signature] = match;
  return {
    keyId: keyId!,
    expiresAt: new Date(Number(seconds) * 1000),
    signature: Buffer.from(signature!, 'base64url'),
  };
}

export function provesSession({ expiresAt, signature }: SessionClaim, key: SessionKey, signingKey: Buffer) {
  return timingSafeEqual(signature, signatureOf(key, expiresAt.getTime() / 1000, signingKey));
}

function signatureOf({ id, hash }: SessionKey, seconds: number, signingKey: Buffer): Buffer {
  return createHmac('sha256', signingKey).update(`${id}.${seconds}.`).update(hash).digest();
}

/** The value of the session cookie of a request. */
export function sessionCookieOf(request: FastifyRequest): string | undefined {
  const prefix = `${cookieName(request)}=`;
  const pairs = (request.headers.cookie ?? '').split(';').map((pair) => pair.trim());
  return pairs.find((pair) => pair.startsWith(prefix))?.slice(prefix.length);
}

/** The `Set-Cookie` header that gives a session to the browser; without a value it takes the session away. */
export function sessionCookie(request: FastifyRequest, value: string | undefined): string {
  const attributes = ['Path=/', 'HttpOnly', 'SameSite=Strict', `Max-Age=${value ? SESSION_SECONDS : 0}`];
  if (isHttps(request)) attributes.push('Secure');
  return [`${cookieName(request)}=${value ?? ''}`, ...attributes].join('; ');
}

/** With the prefix the browser guarantees that no other host of the domain and no page without TLS has set it. */
function cookieName(request: FastifyRequest): string {
  return isHttps(request) ? '__Host-sluice_session' : 'sluice_session';
}

function isHttps({ headers, socket }: FastifyRequest): boolean {
  const forwarded = [headers['x-forwarded-proto'] ?? []].flat().join(',').split(',')[0]!;
  return forwarded.trim().toLowerCase() === 'https' || (socket as TLSSocket).encrypted === true;
}
