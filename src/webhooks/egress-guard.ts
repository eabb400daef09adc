import type { LookupAddress, LookupOptions } from 'node:dns';
import { BlockList, connect, type LookupFunction, type Socket } from 'node:net';
import type { AddressRange } from '../config/address-range.ts';
import { HostLookup, type ResolveHost } from './host-lookup.ts';
import { namedAddresses } from './local-names.ts';
import { closedKindOf, familyOf } from './public-addresses.ts';

/**
 * Ports of services that are not HTTP and might interpret the request as commands: the Fetch standard's "bad ports", which no
 * browser connects to, and databases and caches that often run next to services like this one.
 */
const FETCH_BAD_PORTS = [
  1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
  109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515,
  526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049,
  3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];
const DATA_STORES = [3306, 5432, 6379, 6432, 11211, 27017];

const BLOCKED_PORTS: readonly number[] = [0, ...FETCH_BAD_PORTS, ...DATA_STORES];

export type Verdict =
  /** `unresolved`: the name has no address now. That is no reason to refuse: every connection is checked again. */
  | { readonly kind: 'allowed'; readonly unresolved?: true }
  | { readonly kind: 'refused'; readonly reason: string };

export interface EgressRules {
  /** EGRESS_ALLOW: addresses that may be called although they are not public. */
  readonly allow?: readonly AddressRange[];
  /** Ports refused in addition to the usual ones: that of the service's own database. */
  readonly refusedPorts?: readonly number[];
  readonly resolve?: ResolveHost;
}

/** The error of a connection that must not be made. */
export class EgressRefused extends Error {
  readonly code = 'EGRESS_REFUSED';

  constructor(reason: string) {
    super(reason);
    this.name = 'EgressRefused';
  }
}

const ALLOWED: Verdict = { kind: 'allowed' };
const RESOLVE_TIMEOUT_MS = 5_000;

/**
 * Keeps webhooks out of the network that the service runs in. Otherwise anyone who may define an endpoint could make it post
 * to the cloud's metadata service, to its database or to anything else that trusts its neighbours.
 *
 * Used twice: for the URL when a listener is defined, to return a clear error; and for the addresses of every connection,
 * because a name can resolve to another address by then. Only the second check protects.
 */
export class EgressGuard {
  private readonly allow: BlockList;
  private readonly refusedPorts: ReadonlySet<number>;
  private readonly resolve: ResolveHost;

  constructor({ allow = [], refusedPorts = [], resolve = new HostLookup().resolve }: EgressRules = {}) {
    this.allow = new BlockList();
    for (const { address, prefix, family } of allow) this.allow.addSubnet(address, prefix, family);
    this.refusedPorts = new Set([...BLOCKED_PORTS, ...refusedPorts]);
    this.resolve = resolve;
  }

  /** Checks what the URL itself shows: scheme, credentials, port, and the host if it is an address. */
  checkUrl(text: string): Verdict {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    if (url === undefined) return refused('it is not a URL');
    if (url.protocol !== 'https:' && url.protocol !== 'http:') {
      return refused(`${url.protocol}// is neither https nor http`);
    }
    if (url.username !== '' || url.password !== '') {
      return refused('it contains credentials; send them in a header');
    }
    const reason = this.refusalOfTarget(hostOf(url), portOf(url.protocol, url.port));
    return reason === undefined ? ALLOWED : refused(reason);
  }

  /** The same, and what its name resolves to now: one non-public address of several is enough to refuse. */
  async checkEndpoint(text: string): Promise<Verdict> {
    const verdict = this.checkUrl(text);
    if (verdict.kind === 'refused') return verdict;
    return this.checkAddresses(hostOf(new URL(text)));
  }

  /** The same for a server that is not called by HTTP. */
  async checkServer(host: string, port: number): Promise<Verdict> {
    const reason = this.refusalOfTarget(host, port);
    return reason === undefined ? this.checkAddresses(host) : refused(reason);
  }

  private async checkAddresses(host: string): Promise<Verdict> {
    if (familyOf(host) !== undefined) return ALLOWED;
    const addresses = await this.addressesInTime(host);
    if (addresses.length === 0) return { kind: 'allowed', unresolved: true };
    const reason = this.refusalOfAddresses(host, addresses);
    return reason === undefined ? ALLOWED : refused(reason);
  }

  /**
   * Why a connection to this host and port must not even be tried. A name is judged later, by its addresses; but a name that
   * always means this machine or a metadata service is refused even if no resolver knows it now.
   */
  refusalOfTarget(host: string, port: number): string | undefined {
    if (this.refusedPorts.has(port)) return `port ${port} is not for webhooks`;
    return familyOf(host) === undefined ? this.refusalOfName(host) : this.refusalOfAddress(host);
  }

  private refusalOfName(host: string): string | undefined {
    const named = namedAddresses(host);
    if (
      named === undefined ||
      named.addresses.some((address) => this.refusalOfAddress(address) === undefined)
    )
      return undefined;
    return `${host} is the name of an address that is not public (${named.kind})`;
  }

  refusalOfAddress(address: string): string | undefined {
    const family = familyOf(address);
    if (family !== undefined && this.allow.check(address, family)) return undefined;
    const kind = closedKindOf(address);
    return kind === undefined ? undefined : `${address} is not a public address (${kind})`;
  }

  /** For net.connect, which connects to the addresses returned here: there is no second lookup that could be rebound. */
  lookupWithin(timeoutMs: number): LookupFunction {
    return (host, options, callback) => {
      this.resolve(host, timeoutMs).then(
        (addresses) => {
          const reason = this.refusalOfAddresses(host, addresses);
          if (reason === undefined) returnAddresses(host, addresses, options, callback);
          else callback(new EgressRefused(reason), '');
        },
        (error: NodeJS.ErrnoException) => callback(error, ''),
      );
    };
  }

  /** Does not show the address: what the local resolver knows about internal names must not be disclosed. */
  private refusalOfAddresses(host: string, addresses: readonly LookupAddress[]): string | undefined {
    const closed = addresses.find(({ address }) => this.refusalOfAddress(address) !== undefined);
    if (closed === undefined) return undefined;
    return `${host} points to an address that is not public (${closedKindOf(closed.address)})`;
  }

  private async addressesInTime(host: string): Promise<readonly LookupAddress[]> {
    let timer: NodeJS.Timeout | undefined;
    const timedOut = new Promise<readonly LookupAddress[]>((resolve) => {
      timer = setTimeout(resolve, RESOLVE_TIMEOUT_MS, []);
    });
    try {
      return await Promise.race([this.resolve(host), timedOut]);
    } catch {
      return [];
    } finally {
      clearTimeout(timer);
    }
  }
}

export function portOf(protocol: string, port: string): number {
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : 80;
}

/** As it is looked up: IPv6 without brackets. The URL parser has normalized every other notation of an address. */
function hostOf({ hostname }: URL): string {
  return hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
}

function refused(reason: string): Verdict {
  return { kind: 'refused', reason };
}

function returnAddresses(
  host: string,
  addresses: readonly LookupAddress[],
  options: LookupOptions,
  callback: Parameters<LookupFunction>[2],
): void {
  const { family } = options;
  const wanted = addresses.filter((one) => (family !== 4 && family !== 6 ? true : one.family === family));
  const [first] = wanted;
  if (first === undefined) {
    callback(Object.assign(new Error(`${host} has no address`), { code: 'ENOTFOUND' }), '');
  } else if (options.all) callback(null, wanted as LookupAddress[]);
  else callback(null, first.address, first.family);
}

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

/** A connection to a server that is not called by HTTP, guarded in the same way. */
export function guardedSocket(
  guard: EgressGuard,
  host: string,
  port: number,
  timeoutMs: number,
): Promise<Socket> {
  const reason = guard.refusalOfTarget(host, port);
  if (reason !== undefined) return Promise.reject(new EgressRefused(reason));
  return new Promise((resolve, reject) => {
    connectTo(host, port, guard, timeoutMs, (error, socket) => (error ? reject(error) : resolve(socket)));
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
