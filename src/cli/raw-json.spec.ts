import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import '../../test/support/property-seed.ts';
import { itemTexts, memberText } from './raw-json.ts';

describe('raw JSON', () => {
  it('is split into items that are exactly as they were written', () => {
    expect(itemTexts('[1.10, {"a":[1,2],"b":"],}"} ,"\\"," ]')).toEqual([
      '1.10',
      '{"a":[1,2],"b":"],}"}',
      '"\\","',
    ]);
    expect(itemTexts('[]')).toEqual([]);
    expect(memberText('{"a":"\\\\","b" : {"a":1.0} ,"c":[]}', 'b')).toBe('{"a":1.0}');
    expect(memberText('{"a":1}', 'b')).toBeUndefined();
  });

  it('is split as it is parsed, whatever it contains', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), fc.boolean(), (values, isPretty) => {
        const text = JSON.stringify(values, null, isPretty ? 2 : 0);
        expect(itemTexts(text).map((item) => JSON.parse(item))).toEqual(JSON.parse(text));
      }),
    );
  });
});
