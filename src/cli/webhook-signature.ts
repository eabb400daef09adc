import { createHmac, timingSafeEqual } from 'node:crypto';

const PREFIX = 'whsec_';
const TOLERANCE_SECONDS = 5 * 60;

export type Verdict = 'verified' | 'forged' | 'too old' | 'not signed';

/** The key in a secret of Standard Webhooks; undefined if the secret is malformed. */
export function signingKey(secret: string): Buffer | undefined {
  const key = Buffer.from(secret.slice(PREFIX.length), 'base64');
  return secret.startsWith(PREFIX) && key.length > 0 ? key : undefined;
}

/** Verifies a webhook as a receiver should: the signature over id, time and body, and that the time is recent. */
export function verify(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  body: Buffer,
  keys: readonly Buffer[],
  nowMs: number,
): Verdict {
  const [id, seconds, given] = ['id', 'timestamp', 'signature'].map((name) => headers[`webhook-${name}`]);
  if (typeof id !== 'string' || typeof given !== 'string' || !/^\d{1,12}$/.test(String(seconds)))
    return 'not signed';
  const wanted = keys.map((key) => {
    const digest = createHmac('sha256', key).update(`${id}.${seconds}.`).update(body).digest('base64');
    return Buffer.from(`v1,${digest}`);
  });
  const genuine = given
    .split(' ')
    .some((one) => wanted.some((signature) => isSame(Buffer.from(one), signature)));
  if (!genuine) return 'forged';
  return Math.abs(nowMs / 1000 - Number(seconds)) > TOLERANCE_SECONDS ? 'too old' : 'verified';
}

/** Compares in constant time: the duration must not reveal how much of a guess was right. */
function isSame(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}
