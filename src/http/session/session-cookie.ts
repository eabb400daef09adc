import { createHmac, timingSafeEqual } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import type { FastifyRequest } from 'fastify';

export const SESSION_SECONDS = 12 * 60 * 60;
/** Each is a signature to check. */
const MAX_COOKIES = 20;

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

export interface SessionCookie {
  readonly name: string;
  readonly value: string;
}

/**
 * The session cookies of a request. A browser sends those of every service on the host, whatever their ports and paths are; the
 * signature shows which one is of this service.
 */
export function sessionCookiesOf(request: FastifyRequest): SessionCookie[] {
  const base = baseName(request);
  return (request.headers.cookie ?? '')
    .split(';')
    .map((pair) => /^\s*([^=]+)=(.*?)\s*$/.exec(pair))
    .filter((match) => match !== null)
    .map(([, name, value]) => ({ name: name!, value: value! }))
    .filter(({ name }) => name === base || name.startsWith(`${base}_`))
    .slice(0, MAX_COOKIES);
}

/** Services with different keys have different names, so none replaces or removes the session of another. */
export function sessionCookieName(request: FastifyRequest, signingKey: Buffer): string {
  const mark = createHmac('sha256', signingKey).update('cookie name').digest('hex').slice(0, 8);
  return `${baseName(request)}_${mark}`;
}

/** The `Set-Cookie` header that gives a session to the browser; without a value it takes the session away. */
export function setSessionCookie(request: FastifyRequest, name: string, value: string | undefined): string {
  const attributes = ['Path=/', 'HttpOnly', 'SameSite=Strict', `Max-Age=${value ? SESSION_SECONDS : 0}`];
  if (isHttps(request)) attributes.push('Secure');
  return [`${name}=${value ?? ''}`, ...attributes].join('; ');
}

/** With the prefix the browser guarantees that no other host of the domain and no page without TLS has set it. */
function baseName(request: FastifyRequest): string {
  return isHttps(request) ? '__Host-sluice_session' : 'sluice_session';
}

function isHttps({ headers, socket }: FastifyRequest): boolean {
  const forwarded = [headers['x-forwarded-proto'] ?? []].flat().join(',').split(',')[0]!;
  return forwarded.trim().toLowerCase() === 'https' || (socket as TLSSocket).encrypted === true;
}
