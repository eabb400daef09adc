const FIRST_MS = 100;
const MAX_MS = 10_000;
/** More than this is not waited for within one call, whatever a response asks for. */
const MAX_RETRY_AFTER_MS = 60_000;

/**
 * The wait before retry `n` (from 0): doubled each time, with a random half so that many clients do not return together.
 * Never shorter than the service asked for.
 */
export function backoff(n: number, retryAfterMs = 0, random: () => number = Math.random): number {
  const grown = Math.min(MAX_MS, FIRST_MS * 2 ** n) * (0.5 + random() / 2);
  const asked = Math.min(retryAfterMs, MAX_RETRY_AFTER_MS) * (1 + random() / 5);
  return Math.max(grown, asked);
}

/** `Retry-After`: seconds or an HTTP date → milliseconds. */
export function retryAfterOf(
  header: string | null | undefined,
  now: number = Date.now(),
): number | undefined {
  if (!header) return undefined;
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}
