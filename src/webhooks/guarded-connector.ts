import { connect, type Socket } from 'node:net';
import { type EgressGuard, EgressRefused, portOf } from './egress-guard.ts';

/** The part of undici's connectors that matters here. */
export interface ConnectOptions {
  hostname: string;
  protocol: string;
  port: string;
  httpSocket?: Socket;
}
type Callback = (...result: [error: null, socket: Socket] | [error: Error, socket: null]) => void;
export type Connector<Options extends ConnectOptions> = (options: Options, callback: Callback) => void;

/** The next address of a host is tried after this long; Node's 250 ms is less than a handshake around the globe. */
const NEXT_ADDRESS_AFTER_MS = 1_000;
const KEEP_ALIVE_MS = 60_000;

/**
 * Connects in three steps: the target as it is written, because a lookup is never called for an address; the connection,
 * whose lookup checks every answer; the peer that the socket really has. Only then is the first byte sent. So TLS is
 * started (by undici) on the connected socket and not together with it: its hello would name the host to anybody.
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
  let waiting = true;
  const end = (error: Error | undefined) => {
    if (!waiting) return;
    waiting = false;
    clearTimeout(timer);
    if (error) callback(error, null);
    else callback(null, socket);
  };
  const timer = setTimeout(() => socket.destroy(fault('ETIMEDOUT', 'no connection in time')), timeoutMs);
  // For good: an error that nobody listens to, such as one below a TLS handshake, would end the process.
  socket.on('error', end);
  socket.once('connect', () => {
    const reason = faultOfPeer(socket, guard);
    if (reason) socket.destroy(reason);
    else end(undefined);
  });
}

function faultOfPeer({ remoteAddress }: Socket, guard: EgressGuard): Error | undefined {
  if (remoteAddress === undefined) return fault('ECONNRESET', 'the connection was closed at once');
  const reason = guard.refusalOfAddress(remoteAddress);
  return reason === undefined ? undefined : new EgressRefused(reason);
}

function fault(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}
