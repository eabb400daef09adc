import { createHmac, randomBytes } from 'node:crypto';

const PREFIX = 'whsec_';
const SECRET_BYTES = 32;

/** A new signing secret, in the format of Standard Webhooks. */
export function newSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString('base64');
}

/** `v1,…` for each secret: during a rotation a receiver may know either. */
export function signatures(id: string, seconds: number, body: string, secrets: readonly string[]): string {
  if (secrets.length === 0) throw new Error('a delivery cannot be signed without a secret');
  const signed = `${id}.${seconds}.${body}`;
  return secrets.map((secret) => `v1,${hmac(secret, signed)}`).join(' ');
}

function hmac(secret: string, text: string): string {
  const key = Buffer.from(secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret, 'base64');
  if (key.length === 0) throw new Error('the secret of a listener is empty');
  return createHmac('sha256', key).update(text, 'utf8').digest('base64');
}
