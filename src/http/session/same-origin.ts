import type { FastifyRequest } from 'fastify';
import { Problem } from '../problems.ts';

const SAFE_METHODS = ['GET', 'HEAD', 'OPTIONS'];

/**
 * A browser sends the session cookie along with every request to this host, so a request that changes something must come
 * from a page of this host. Browsers say so in `Sec-Fetch-Site`, which no page can set; those that do not are recognized by
 * their Origin.
 */
export function rejectOtherSites(request: FastifyRequest): void {
  if (SAFE_METHODS.includes(request.method) || isFromOwnPage(request)) return;
  throw new Problem(
    'cross-origin',
    'A session may only be used by the pages of this service. Other programs send an API key.',
  );
}

/**
 * A proxy that signs people in adds an API key to whatever their browsers send, also to what a page of another site made them
 * send. Programs send neither header; a person who enters an address or follows a bookmark (`none`) is no page.
 */
export function rejectPagesOfOtherSites(request: FastifyRequest): void {
  const { method, headers } = request;
  if (SAFE_METHODS.includes(method) || isFromOwnPage(request)) return;
  const site = headers['sec-fetch-site'];
  if (site === undefined ? headers.origin === undefined : site === 'none') return;
  throw new Problem(
    'cross-origin',
    'A page of another site may not change anything, also not with an API key that a proxy adds to its requests.',
  );
}

function isFromOwnPage({ headers }: FastifyRequest): boolean {
  const site = headers['sec-fetch-site'];
  return site === undefined ? isOwnOrigin(headers.origin, headers.host) : site === 'same-origin';
}

function isOwnOrigin(origin: string | undefined, host: string | undefined): boolean {
  if (origin === undefined || !URL.canParse(origin)) return false;
  return new URL(origin).host === host?.toLowerCase();
}
