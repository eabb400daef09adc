import type { Client } from 'undici';
// @ts-expect-error: without types
import symbols from 'undici/lib/core/symbols.js';

const { kSocket, kParser } = symbols as { readonly kSocket: symbol; readonly kParser: symbol };

/** The part of undici's parser of a connection that is used. */
interface Parser {
  onHeadersComplete(status: number, upgrade: boolean, keepAlive: boolean): number;
}

const CONTINUE = 100;
/** Any interim status that the sender ignores. */
const PROCESSING = 102;

/**
 * Accepts `100 Continue` like any other interim response (RFC 9110, 15.2: a client must, even if it did not ask for one).
 * undici 7 and 8 close the connection instead ("bad response"), and have no option for it: a good delivery would fail
 * because of a proxy that sends one unasked. A status below 100 is rejected here with a clear error; undici fails on an
 * assertion.
 *
 * This depends on internals of undici; its version is pinned, and `malformed-responses.spec.ts` checks the next one.
 * Must be called when the client has connected.
 */
export function acceptInterimResponses(client: Client): void {
  const socket = (client as unknown as Record<symbol, Record<symbol, Parser> | null>)[kSocket];
  const parser = socket?.[kParser];
  if (!parser) return;
  const { onHeadersComplete } = parser;
  parser.onHeadersComplete = function (status, upgrade, keepAlive) {
    // Thrown through the parser like its own errors: the connection is closed.
    if (status < CONTINUE) throw Object.assign(new Error(`status ${status}`), { code: 'HPE_INVALID_STATUS' });
    return onHeadersComplete.call(this, status === CONTINUE ? PROCESSING : status, upgrade, keepAlive);
  };
}
