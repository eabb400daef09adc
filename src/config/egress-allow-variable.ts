import { type AddressRange, baseOf, contains, hasHostBits, parseRange } from './address-range.ts';
import { Refused } from './setting.ts';

export const EGRESS_ALLOW_FORM =
  'addresses or ranges, separated by commas: `10.20.0.0/16,fd12:3456::/32,192.0.2.7`; ' +
  'a prefix shorter than /8 (IPv6: /16) needs `+wide` after it, a range that contains a metadata address `+metadata`';

/** Addresses at which clouds give credentials to any process inside the machine. */
const METADATA = [
  '169.254.169.254',
  // AWS: tasks of ECS, pods of EKS.
  '169.254.170.2',
  '169.254.170.23',
  // Alibaba, Oracle, Azure, Tencent, Scaleway.
  '100.100.100.200',
  '192.0.0.192',
  '168.63.129.16',
  '169.254.0.23',
  '169.254.42.42',
  // The same over IPv6: AWS, EKS, Google, Scaleway, Azure.
  'fd00:ec2::254',
  'fd00:ec2::23',
  'fd20:ce::254',
  'fd00:42::42',
  'fe80::a9fe:a9fe',
];
/** With NAT64 every IPv4 address is also reachable by an IPv6 address. */
const NAT64 = '64:ff9b::';
const METADATA_RANGES = [
  ...METADATA,
  ...METADATA.filter((address) => address.includes('.')).map((address) => NAT64 + address),
].map((address) => parseRange(address)!);

const SHORTEST_IPV4 = 8;
const SHORTEST_IPV6 = 16;
/** IPv6 ranges that map all of IPv4: there the length of the IPv4 prefix counts. */
const IPV4_IN_IPV6 = ['::ffff:0:0/96', `${NAT64}/96`].map((range) => parseRange(range)!);

const SUFFIXES = ['wide', 'metadata'] as const;
type Word = (typeof SUFFIXES)[number];

/** Refuses every entry that is malformed, or that allows more than its author probably intended. */
export function parseEgressAllow(raw: string): readonly AddressRange[] | Refused {
  const entries = raw.split(',').map((part) => parseEntry(part.trim()));
  const errors = entries.filter((entry) => typeof entry === 'string');
  if (errors.length > 0) return new Refused(errors.join('; '));
  return entries as AddressRange[];
}

/** The first metadata address that a range contains. */
export function metadataIn(range: AddressRange): string | undefined {
  return METADATA_RANGES.find((one) => contains(range, one))?.address;
}

/** Returns the range, or an error message. */
function parseEntry(entry: string): AddressRange | string {
  const [text = '', ...words] = entry.split('+');
  const range = parseRange(text);
  if (range === undefined) return `${JSON.stringify(entry)} is neither an address nor a range`;
  const unknown = words.find((word) => !(SUFFIXES as readonly string[]).includes(word));
  if (unknown !== undefined)
    return `${JSON.stringify(entry)} ends with a word that is neither +wide nor +metadata`;
  if (hasHostBits(range))
    return `${text} has bits set beyond its prefix; write ${baseOf(range)}/${range.prefix} for the range, or ${range.address} for the address`;
  return missingWords(text, range, words as Word[]) ?? range;
}

/** An error message if the range needs `+wide` or `+metadata` and does not have it. */
function missingWords(text: string, range: AddressRange, words: readonly Word[]): string | undefined {
  const metadata = metadataIn(range);
  const needed: Record<Word, string | undefined> = {
    wide: tooWide(range),
    metadata: metadata && `contains ${metadata}, where clouds give out credentials`,
  };
  const missing = SUFFIXES.filter((word) => needed[word] && !words.includes(word));
  if (missing.length === 0) return undefined;
  const all = SUFFIXES.filter((word) => needed[word]).map((word) => `+${word}`);
  const why = missing.map((word) => needed[word]).join(' and ');
  return `${text} ${why}; use a narrower range, or write ${text}${all.join('')} if that is intended`;
}

function tooWide(range: AddressRange): string | undefined {
  const shortest = range.family === 'ipv4' ? SHORTEST_IPV4 : SHORTEST_IPV6;
  if (range.prefix < shortest) return `is shorter than /${shortest}`;
  if (range.family === 'ipv4' || range.prefix >= 96 + SHORTEST_IPV4) return undefined;
  const standsForIpv4 = IPV4_IN_IPV6.some((ipv4) => contains(ipv4, range) || contains(range, ipv4));
  return standsForIpv4 ? `maps a range of IPv4 that is shorter than /${SHORTEST_IPV4}` : undefined;
}
