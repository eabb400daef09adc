import type { FastifyRequest } from 'fastify';
import { Problem } from '../problems.ts';

const SAFE_METHODS = ['GET', 'HEAD', 'OPTIONS'];

/**
 * A browser sends the session cookie along with every request to this host, so a request that changes something must come
 * from a page of this host. Browsers say so in `Sec-Fetch-Site`, which no page can set; those that do not are recognized by
 * their Origin.
 */
export function rejectOtherSites({ method, headers }: FastifyRequest): void {
  if (SAFE_METHODS.includes(method)) return;
  const site = headers['sec-fetch-site'];
  if (site === undefined ? isOwnOrigin(headers.origin, headers.host) : site === 'same-origin') return;
  throw new Problem(
    'cross-origin',
    'A session may only be used by the pages of this service. Other programs send an API key.',
  );
}

function isOwnOrigin(origin: string | undefined, host: string | undefined): boolean {
  if (origin === undefined || !URL.canParse(origin)) return false;
  return new URL(origin).host === host?.toLowerCase();
}
