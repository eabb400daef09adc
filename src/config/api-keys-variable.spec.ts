import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { settingsError } from '../../test/support/settings-error.ts';
import { loadSettings } from './settings.ts';

const KEY = 'sk_abc_0123456789';
const OTHER = 'sk_d_canary78';

const errorOf = (API_KEYS: string) => settingsError({ API_KEYS });

describe('API_KEYS', () => {
  it('binds a key to prefixes of sources and of keys, in brackets', () => {
    const raw = `a=read:${KEY}, shop=produce[source=urn:shop:eu/, key=shop-,key=cart=1;]:${OTHER},b=produce:sk_e_12345678`;
    expect(loadSettings({ API_KEYS: raw }).apiKeys).toEqual([
      { name: 'a', scopes: ['read'], key: KEY },
      {
        name: 'shop',
        scopes: ['produce'],
        key: OTHER,
        sources: ['urn:shop:eu/'],
        keys: ['shop-', 'cart=1;'],
      },
      { name: 'b', scopes: ['produce'], key: 'sk_e_12345678' },
    ]);
  });

  it.each<[raw: string, reported: string]>([
    [`a=read:${KEY},canary`, 'is not allowed: entry 2 is not of this form; allowed: '],
    [`a=produce[source=urn:a/:${OTHER}`, 'entry 1 is not of this form'],
    [`a=produce]source=urn:a/[:${OTHER}`, 'entry 1 is not of this form'],
    [`a=produce[source=[a]]:${OTHER}`, 'entry 1 is not of this form'],
    [`a[source=urn:a/]=produce:${OTHER}`, 'entry 1 is not of this form'],
    [`a=root:${OTHER}`, 'entry 1 (a) has an unknown scope'],
    [`a=produce[]:${OTHER}`, 'entry 1 (a): "" in brackets is neither source=<prefix> nor key=<prefix>'],
    [
      `a=read:${KEY},b=produce[source=urn:a/,urn:b/]:${OTHER}`,
      'entry 2 (b): "urn:b/" in brackets is neither source=<prefix> nor key=<prefix>',
    ],
    [
      `a=produce[source=]:${OTHER}`,
      'entry 1 (a): "source=" in brackets: the prefix must be a non-empty string',
    ],
    [`a=produce[source=urn:sluice:x]:${OTHER}`, 'the prefix must not begin with urn:sluice:'],
    [
      `a=produce[${Array.from({ length: 21 }, (_, n) => `key=${n}`)}]:${OTHER}`,
      'more than 20 prefixes of keys',
    ],
    [`a=admin[key=a]:${OTHER}`, 'entry 1 (a): only a key with the scope produce, and without admin'],
    [`a=read[key=a]:${OTHER}`, 'entry 1 (a): only a key with the scope produce'],
    [`a=read:${KEY},a=read:${OTHER}`, 'entries 1 and 2 have the same name'],
    [`a=read:${KEY},b=read:sk_abc_canary78`, 'entries 1 and 2 have the same id'],
  ])('%s is refused, and the place is named: %s', (raw, reported) => {
    const message = errorOf(raw);
    expect(message).toMatch(/^API_KEYS=\(hidden\) is not allowed: .*; allowed: `name=scope/);
    expect(message).toContain(reported);
    expect(message).not.toContain('canary');
    expect(message).not.toContain('\n');
  });

  it('keeps every prefix exactly as written', () => {
    const prefix = fc
      .string({ unit: 'grapheme', minLength: 1, maxLength: 60 })
      .filter(
        (one) => !/[[\],\u0000-\u001f\u007f]|^\s|\s$|^urn:sluice:/i.test(one) && !/\p{Surrogate}/u.test(one),
      );
    const several = fc.array(prefix, { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(fc.array(fc.tuple(several, several), { minLength: 1, maxLength: 4 }), (bindings) => {
        const entries = bindings.map(([sources, keys], n) => {
          const parts = [...sources.map((one) => `source=${one}`), ...keys.map((one) => `key=${one}`)];
          return `n${n}=produce[${parts.join(',')}]:sk_${n}_12345678`;
        });
        const { apiKeys } = loadSettings({ API_KEYS: entries.join(',') });
        expect(apiKeys.map(({ sources, keys }) => [sources, keys])).toEqual(bindings);
      }),
    );
  });
});
