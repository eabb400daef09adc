import { BlockList } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { settingsError } from '../../test/support/settings-error.ts';
import { baseOf, contains, hasHostBits, parseRange } from './address-range.ts';
import { loadSettings } from './settings.ts';

const errorOf = (EGRESS_ALLOW: string) => settingsError({ EGRESS_ALLOW });

describe('EGRESS_ALLOW', () => {
  it.each<[written: string, reported: string]>([
    [
      '10.0.0.1/8',
      '10.0.0.1/8 has bits set beyond its prefix; write 10.0.0.0/8 for the range, or 10.0.0.1 for the address',
    ],
    [
      'fd12:3456::1/32',
      'fd12:3456::1/32 has bits set beyond its prefix; write fd12:3456::/32 for the range, or fd12:3456::1 for the address',
    ],
    ['192.168.1.129/25+wide', 'write 192.168.1.128/25 for the range, or 192.168.1.129 for the address'],
    [
      '10.0.0.0/7',
      '10.0.0.0/7 is shorter than /8; use a narrower range, or write 10.0.0.0/7+wide if that is intended',
    ],
    ['fc00::/15', 'fc00::/15 is shorter than /16; use a narrower range, or write fc00::/15+wide'],
    ['fd00::/8', 'is shorter than /16 and contains fd00:ec2::254'],
    ['fd00::/8', 'or write fd00::/8+wide+metadata if that is intended'],
    ['fd00::/8+wide', 'fd00::/8 contains fd00:ec2::254, where clouds give out credentials'],
    ['fd00::/8+metadata', 'fd00::/8 is shorter than /16; use a narrower'],
    ['0.0.0.0/0', 'or write 0.0.0.0/0+wide+metadata if that is intended'],
    ['::/0', 'or write ::/0+wide+metadata if that is intended'],
    ['::ffff:0:0/96', 'maps a range of IPv4 that is shorter than /8'],
    ['::ffff:10.0.0.0/103', 'maps a range of IPv4 that is shorter than /8'],
    ['64:ff9b::/96', 'maps a range of IPv4 that is shorter than /8'],
    ['64:ff9b::/32', 'maps a range of IPv4 that is shorter than /8'],
    [
      '169.254.169.254',
      'or write 169.254.169.254+metadata if that is intended; allowed: addresses or ranges, separated by commas',
    ],
    ['169.254.0.0/16', 'contains 169.254.169.254'],
    ['169.254.170.2', 'contains 169.254.170.2, where'],
    ['169.254.170.0/28', 'contains 169.254.170.2, where'],
    ['100.64.0.0/10', 'contains 100.100.100.200'],
    ['168.63.129.16', 'contains 168.63.129.16'],
    ['192.0.0.0/24', 'contains 192.0.0.192'],
    ['fd00:ec2::/32', 'contains fd00:ec2::254'],
    ['fd20:ce::254', 'contains fd20:ce::254'],
    ['fe80::/16', 'contains fe80::a9fe:a9fe'],
    ['::ffff:169.254.0.0/112', 'contains 169.254.169.254'],
    ['64:ff9b::a9fe:a9fe', 'contains 64:ff9b::169.254.169.254'],
    ['10.0.0.0/8+unsafe', '"10.0.0.0/8+unsafe" ends with a word that is neither +wide nor +metadata'],
    ['10.0.0.0/8+', 'neither +wide nor +metadata'],
    ['+wide', '"+wide" is neither an address nor a range'],
    ['fe80::1%eth0', '"fe80::1%eth0" is neither an address nor a range'],
    ['a\nb', '"a\\nb" is neither an address nor a range'],
  ])('%s is refused with what to write instead: %s', (written, reported) => {
    const message = errorOf(written);
    expect(message).toMatch(/^EGRESS_ALLOW=.* is not allowed: /);
    expect(message).not.toContain('\n');
    expect(message).toContain(reported);
  });

  it('reports every invalid entry', () => {
    const message = errorOf('10.0.0.1/8,192.168.0.0/16,x,0.0.0.0/1+metadata');
    for (const reported of ['10.0.0.1/8 has bits', '"x" is neither', '0.0.0.0/1 is shorter'])
      expect(message).toContain(reported);
    expect(message).not.toContain('192.168.0.0/16 ');
  });

  it.each([
    '127.0.0.0/8',
    '10.0.0.0/8',
    '10.20.0.0/16,fd12:3456::/32,192.0.2.7',
    '172.16.0.0/12, 192.168.0.0/16',
    '::1',
    'fd12::/16',
    '::ffff:10.0.0.0/104',
    '64:ff9b::10.0.0.0/104',
    '0.0.0.0/0+wide+metadata,::/0+metadata+wide',
    '169.254.169.254/32+metadata',
    '10.0.0.0/8+wide',
  ])('accepts %s', (EGRESS_ALLOW) => {
    expect(loadSettings({ EGRESS_ALLOW }).egressAllow).toHaveLength(EGRESS_ALLOW.split(',').length);
  });
});

const address = fc.oneof(
  fc.ipV4().map((text) => [text, 32] as const),
  fc.ipV6().map((text) => [text, 128] as const),
);

describe('a range of addresses', () => {
  it('has a base address without bits beyond the prefix, inside the range according to net.BlockList', () => {
    fc.assert(
      fc.property(address, fc.nat(128), ([text, longest], length) => {
        const prefix = Math.min(length, longest);
        const range = parseRange(`${text}/${prefix}`)!;
        const base = parseRange(`${baseOf(range)}/${prefix}`)!;
        const list = new BlockList();
        list.addSubnet(range.address, prefix, range.family);
        expect([hasHostBits(base), list.check(base.address, base.family)]).toEqual([false, true]);
        expect([contains(range, base), contains(base, range)]).toEqual([true, true]);
        expect(hasHostBits(range)).toBe(!contains(parseRange(base.address)!, parseRange(range.address)!));
      }),
    );
  });

  it('contains an address exactly where net.BlockList finds it, IPv4 within IPv6 included', () => {
    fc.assert(
      fc.property(address, fc.nat(128), address, fc.boolean(), ([text, longest], length, [other], near) => {
        const prefix = Math.min(length, longest);
        const range = parseRange(`${text}/${prefix}`)!;
        const one = parseRange(near ? baseOf(range) : other)!;
        const list = new BlockList();
        list.addSubnet(range.address, prefix, range.family);
        expect(contains(range, one)).toBe(list.check(one.address, one.family));
      }),
      { examples: [[['::', 128], 0, ['10.0.0.1', 32], false]] },
    );
  });
});
