import { connect, type Socket } from 'node:net';
import { type EgressGuard, EgressRefused, portOf } from './egress-guard.ts';

/** The part of undici's connector options that is used. */
export interface ConnectOptions {
  hostname: string;
  protocol: string;
  port: string;
  httpSocket?: Socket;
}
type Callback = (...result: [error: null, socket: Socket] | [error: Error, socket: null]) => void;
export type Connector<Options extends ConnectOptions> = (options: Options, callback: Callback) => void;

/** The next address of a host is tried after this time; Node's 250 ms is less than a handshake around the globe. */
const NEXT_ADDRESS_AFTER_MS = 1_000;
const KEEP_ALIVE_MS = 60_000;

/**
 * Checks three times: the target as written, because no lookup is made for an address; every address that the lookup of the
 * connection returns; and the peer that the socket is really connected to. Only then is the first byte sent. So TLS is
 * started (by undici) on the connected socket and not together with it: its hello would disclose the host name to any peer.
 */
export function guardedConnector<Options extends ConnectOptions>(
  guard: EgressGuard,
  timeoutMs: number,
  startTls: Connector<Options>,
): Connector<Options> {
  return (options, callback) => {
    const { hostname, protocol } = options;
    const port = portOf(protocol, options.port);
    const reason = guard.refusalOfTarget(hostname, port);
    if (reason !== undefined) return queueMicrotask(() => callback(new EgressRefused(reason), null));
    connectTo(hostname, port, guard, timeoutMs, (error, socket) => {
      if (error) callback(error, null);
      else if (protocol === 'https:') startTls({ ...options, httpSocket: socket }, callback);
      else callback(null, socket);
    });
  };
}

function connectTo(
  host: string,
  port: number,
  guard: EgressGuard,
  timeoutMs: number,
  callback: Callback,
): void {
  const socket = connect({
    host,
    port,
    lookup: guard.lookupWithin(timeoutMs),
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: NEXT_ADDRESS_AFTER_MS,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_MS,
  });
  let pending = true;
  const end = (error: Error | undefined) => {
    if (!pending) return;
    pending = false;
    clearTimeout(timer);
    if (error) callback(error, null);
    else callback(null, socket);
  };
  const timer = setTimeout(() => socket.destroy(errorWith('ETIMEDOUT', 'no connection in time')), timeoutMs);
  // Never removed: an error without a listener, such as one during the TLS handshake, would end the process.
  socket.on('error', end);
  socket.once('connect', () => {
    const reason = peerError(socket, guard);
    if (reason) socket.destroy(reason);
    else end(undefined);
  });
}

function peerError({ remoteAddress }: Socket, guard: EgressGuard): Error | undefined {
  if (remoteAddress === undefined) return errorWith('ECONNRESET', 'the connection was closed at once');
  const reason = guard.refusalOfAddress(remoteAddress);
  return reason === undefined ? undefined : new EgressRefused(reason);
}

function errorWith(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}
