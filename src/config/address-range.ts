import { isIP } from 'node:net';

export interface AddressRange {
  readonly address: string;
  readonly prefix: number;
  readonly family: 'ipv4' | 'ipv6';
}

const IPV4_MAPPED = 0xffff_0000_0000n;

/** Parses `10.0.0.0/8` or a single address; returns undefined for anything else. */
export function parseRange(text: string): AddressRange | undefined {
  const match = /^([0-9a-fA-F.:]+)(?:\/(\d{1,3}))?$/.exec(text);
  const version = match ? isIP(match[1]!) : 0;
  if (version === 0) return undefined;
  const maxPrefix = version === 4 ? 32 : 128;
  const prefix = match![2] === undefined ? maxPrefix : Number(match![2]);
  if (prefix > maxPrefix) return undefined;
  return { address: match![1]!, prefix, family: version === 4 ? 'ipv4' : 'ipv6' };
}

/** Two ranges given by prefixes never overlap partially: one contains the other, or they are disjoint. */
export function contains(outer: AddressRange, inner: AddressRange): boolean {
  return bitsOf(outer) <= bitsOf(inner) && networkOf(outer) === inBits(inner, bitsOf(outer));
}

/** The first address of the range; differs from `range.address` if that has bits set beyond the prefix. */
export function baseOf(range: AddressRange): string {
  const base = networkOf(range) << BigInt(128 - bitsOf(range));
  const groups = Array.from({ length: 8 }, (_, n) => Number((base >> BigInt(112 - n * 16)) & 0xffffn));
  if (range.family === 'ipv4') return groups.slice(6).flatMap(bytesOf).join('.');
  return hostnameOf(groups.map((group) => group.toString(16)).join(':'));
}

export function hasHostBits(range: AddressRange): boolean {
  return numberOf(range) !== networkOf(range) << BigInt(128 - bitsOf(range));
}

/** The prefix length in 128 bits: IPv4 is compared as IPv4-mapped IPv6, as net.BlockList does. */
function bitsOf({ prefix, family }: AddressRange): number {
  return family === 'ipv4' ? prefix + 96 : prefix;
}

function networkOf(range: AddressRange): bigint {
  return inBits(range, bitsOf(range));
}

function inBits(range: AddressRange, bits: number): bigint {
  return numberOf(range) >> BigInt(128 - bits);
}

function numberOf({ address, family }: AddressRange): bigint {
  if (family === 'ipv4') return IPV4_MAPPED + BigInt(numberOfIpv4(address));
  const [head = '', tail = ''] = hostnameOf(address).split('::');
  const [first, last] = [groupsOf(head), groupsOf(tail)];
  const groups = [...first, ...Array(8 - first.length - last.length).fill(0), ...last];
  return groups.reduce<bigint>((sum, group) => (sum << 16n) + BigInt(group), 0n);
}

function numberOfIpv4(address: string): number {
  return address.split('.').reduce((sum, byte) => sum * 256 + Number(byte), 0);
}

function groupsOf(text: string): number[] {
  return text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));
}

function bytesOf(group: number): number[] {
  return [group >> 8, group & 255];
}

/** An IPv6 address in the form of the URL standard: hexadecimal only, the longest run of zeros as `::`. */
function hostnameOf(address: string): string {
  return new URL(`http://[${address}]`).hostname.slice(1, -1);
}
