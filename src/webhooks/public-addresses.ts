import { BlockList, isIP } from 'node:net';

/** IPv4 that is not the public internet: IANA's special-purpose registry, and internal addresses of clouds. */
const CLOSED_IPV4: Readonly<Record<string, readonly string[]>> = {
  unspecified: ['0.0.0.0/8'],
  loopback: ['127.0.0.0/8'],
  private: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'],
  'carrier-grade NAT': ['100.64.0.0/10'],
  'link-local (metadata)': ['169.254.0.0/16'],
  // Azure's WireServer: a public address that responds only from inside.
  metadata: ['168.63.129.16/32'],
  reserved: [
    '192.0.0.0/24',
    '192.31.196.0/24',
    '192.52.193.0/24',
    '192.88.99.0/24',
    '192.175.48.0/24',
    '240.0.0.0/4',
  ],
  documentation: ['192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24'],
  benchmark: ['198.18.0.0/15'],
  multicast: ['224.0.0.0/4'],
};

/** IPv6 that is not: everything outside of OPEN_IPV6, and these inside. */
const CLOSED_IPV6: Readonly<Record<string, readonly string[]>> = {
  loopback: ['::1/128'],
  'unspecified or IPv4-compatible': ['::/96'],
  'local NAT64': ['64:ff9b:1::/48'],
  'unique local': ['fc00::/7'],
  'link-local': ['fe80::/10'],
  'site-local': ['fec0::/10'],
  multicast: ['ff00::/8'],
  // Teredo, ORCHID, benchmarks: no webhook is received there.
  'protocol assignment (Teredo)': ['2001::/23'],
  documentation: ['2001:db8::/32', '3fff::/20'],
  // Contains an IPv4 address that a relay forwards to; deprecated by RFC 7526.
  '6to4': ['2002::/16'],
};

/** Global unicast; and ranges that embed an IPv4 address, which is then checked as such. */
const IPV4_MAPPED = '::ffff:0:0/96';
const NAT64 = '64:ff9b::';
const OPEN_IPV6 = ['2000::/3', `${NAT64}/96`, IPV4_MAPPED];

interface ClosedRange {
  readonly kind: string;
  readonly list: BlockList;
}

const CLOSED: readonly ClosedRange[] = [
  // BlockList itself treats ::ffff:10.0.0.1 as 10.0.0.1; an address behind NAT64 needs a range of its own.
  ...Object.entries(CLOSED_IPV4).map(([kind, ranges]) => ({
    kind,
    list: blockList([...ranges, ...ranges.map(behindNat64)]),
  })),
  ...Object.entries(CLOSED_IPV6).map(([kind, ranges]) => ({ kind, list: blockList(ranges) })),
];
const OPEN = blockList(OPEN_IPV6);

/** Why the address is not public ("loopback"); undefined: it is public. */
export function closedKindOf(address: string): string | undefined {
  const family = familyOf(address);
  if (family === undefined) return 'not an address';
  const closed = CLOSED.find(({ list }) => list.check(address, family));
  if (closed) return closed.kind;
  return family === 'ipv6' && !OPEN.check(address, family) ? 'reserved' : undefined;
}

export function familyOf(address: string): 'ipv4' | 'ipv6' | undefined {
  const version = isIP(address);
  return version === 4 ? 'ipv4' : version === 6 ? 'ipv6' : undefined;
}

function blockList(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', prefix] = range.split('/');
    list.addSubnet(address, Number(prefix), familyOf(address)!);
  }
  return list;
}

function behindNat64(range: string): string {
  const [address, prefix] = range.split('/');
  return `${NAT64}${address}/${96 + Number(prefix)}`;
}
