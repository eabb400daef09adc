import type { LookupAddress, LookupOptions } from 'node:dns';
import { BlockList, type LookupFunction } from 'node:net';
import type { AddressRange } from '../config/address-range.ts';
import { BLOCKED_PORTS } from './blocked-ports.ts';
import { HostLookup, type ResolveHost } from './host-lookup.ts';
import { namedAddresses } from './local-names.ts';
import { closedKindOf, familyOf } from './public-addresses.ts';

export type Verdict =
  /** `unresolved`: the name has no address at the moment. Not a reason to refuse: every connection is checked again. */
  | { readonly kind: 'allowed'; readonly unresolved?: true }
  | { readonly kind: 'refused'; readonly reason: string };

export interface EgressRules {
  /** EGRESS_ALLOW: addresses that may be called although they are not public. */
  readonly allow?: readonly AddressRange[];
  /** Ports refused beside the usual ones: our own database's. */
  readonly refusedPorts?: readonly number[];
  readonly resolve?: ResolveHost;
}

/** Thrown into a connection that must not be. */
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
 * Keeps webhooks out of the network the service stands in. Whoever may name an endpoint may otherwise make us post to
 * the cloud's metadata service, to our database or to anything else that trusts its neighbours.
 *
 * Asked twice: about the URL when a listener is defined, for a clear answer; and about the addresses at every
 * connection, because a name can point somewhere else by then. Only the second one protects.
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

  /** What the URL itself shows: scheme, credentials, port, and the address if it is one. */
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

  /** The same, and where its name points to at the moment: one closed address of several is enough to refuse. */
  async checkEndpoint(text: string): Promise<Verdict> {
    const verdict = this.checkUrl(text);
    if (verdict.kind === 'refused') return verdict;
    const host = hostOf(new URL(text));
    if (familyOf(host) !== undefined) return verdict;
    const addresses = await this.addressesSoon(host);
    if (addresses.length === 0) return { kind: 'allowed', unresolved: true };
    const reason = this.refusalOfAnswers(host, addresses);
    return reason === undefined ? ALLOWED : refused(reason);
  }

  /**
   * Why a connection to this host and port must not even be tried. A name is judged later, by its addresses; but what
   * means this machine or a metadata service everywhere is refused also where no resolver knows it at the moment.
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

  /** For net.connect, which connects to what it answers and asks nobody else: there is no second lookup to rebind. */
  lookupWithin(patienceMs: number): LookupFunction {
    return (host, options, callback) => {
      this.resolve(host, patienceMs).then(
        (addresses) => {
          const reason = this.refusalOfAnswers(host, addresses);
          if (reason === undefined) answer(host, addresses, options, callback);
          else callback(new EgressRefused(reason), '');
        },
        (error: NodeJS.ErrnoException) => callback(error, ''),
      );
    };
  }

  /** Does not tell the address: what our resolver knows about inner names is not for whoever asks. */
  private refusalOfAnswers(host: string, addresses: readonly LookupAddress[]): string | undefined {
    const closed = addresses.find(({ address }) => this.refusalOfAddress(address) !== undefined);
    if (closed === undefined) return undefined;
    return `${host} points to an address that is not public (${closedKindOf(closed.address)})`;
  }

  private async addressesSoon(host: string): Promise<readonly LookupAddress[]> {
    let timer: NodeJS.Timeout | undefined;
    const tooLate = new Promise<readonly LookupAddress[]>((resolve) => {
      timer = setTimeout(resolve, RESOLVE_TIMEOUT_MS, []);
    });
    try {
      return await Promise.race([this.resolve(host), tooLate]);
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

/** As it is looked up: IPv6 without its brackets. The URL parser has undone every other way to write an address. */
function hostOf({ hostname }: URL): string {
  return hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
}

function refused(reason: string): Verdict {
  return { kind: 'refused', reason };
}

function answer(
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
