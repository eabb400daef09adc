import { isIP } from 'node:net';

export interface AddressRange {
  readonly address: string;
  readonly prefix: number;
  readonly family: 'ipv4' | 'ipv6';
}

export const EGRESS_ALLOW_FORM = 'addresses or ranges, separated by commas: `10.0.0.0/8,fd00::/8,192.0.2.7`';

/** Undefined when any of them is malformed. */
export function parseEgressAllow(raw: string): readonly AddressRange[] | undefined {
  const ranges = raw.split(',').map((part) => parseRange(part.trim()));
  return ranges.every((range) => range !== undefined) ? ranges : undefined;
}

function parseRange(text: string): AddressRange | undefined {
  const match = /^([0-9a-fA-F.:]+)(?:\/(\d{1,3}))?$/.exec(text);
  const version = match ? isIP(match[1]!) : 0;
  if (version === 0) return undefined;
  const most = version === 4 ? 32 : 128;
  const prefix = match![2] === undefined ? most : Number(match![2]);
  if (prefix > most) return undefined;
  return { address: match![1]!, prefix, family: version === 4 ? 'ipv4' : 'ipv6' };
}
