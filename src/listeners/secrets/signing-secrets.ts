import type { SigningSecret } from './confidential.ts';

/** How long a receiver has to switch to the new secret. */
const ROTATION_MS = 24 * 3_600_000;
/** Each is one more signature in the header of every delivery. */
export const MAX_SECRETS = 5;

/** The secrets that sign now: the current one, and older ones until they expire. */
export function signingNow(secrets: readonly SigningSecret[], now: Date): readonly SigningSecret[] {
  return secrets.filter(({ until }) => until === undefined || Date.parse(until) > now.getTime());
}

/** `next` becomes the current one; the one before it signs for 24 more hours, older ones until they expire. */
export function rotated(
  secrets: readonly SigningSecret[],
  next: string,
  now: Date,
): readonly SigningSecret[] {
  const until = new Date(now.getTime() + ROTATION_MS).toISOString();
  const older = signingNow(secrets, now).map((one) => ({ secret: one.secret, until: one.until ?? until }));
  return [{ secret: next }, ...older.filter(({ secret }) => secret !== next)];
}

/** The format of Standard Webhooks: `whsec_` and 24 to 64 bytes in base64. */
export function isSecret(text: string): boolean {
  const match = /^whsec_((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/.exec(text);
  if (!match) return false;
  const bytes = Buffer.from(match[1]!, 'base64').length;
  return bytes >= 24 && bytes <= 64;
}
