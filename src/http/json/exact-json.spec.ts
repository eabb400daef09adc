import { describe, expect, it } from '@jest/globals';
import { decodeUtf8, ExactJson, type JsonFaultCode, type JsonSlice, type ScanOptions } from './exact-json.ts';
import { JsonLexer } from './json-lexer.ts';
import { SeenKeys } from './seen-keys.ts';

function faultOf(text: string, options?: ScanOptions) {
  const result = ExactJson.scan(text, options);
  return result.ok ? undefined : result.fault;
}

function sliceOf(text: string, options?: ScanOptions): JsonSlice {
  const result = ExactJson.scan(text, options);
  if (!result.ok) throw new Error(JSON.stringify(result.fault));
  return result.value;
}

/** [the text, code, pointer, offset] */
type Case = [string, JsonFaultCode, string, number];

function refuses(cases: Case[]): void {
  it.each(cases)('refuses %j as %s at "%s", offset %d', (text, code, pointer, offset) => {
    expect(faultOf(text)).toEqual({ code, pointer, offset, detail: expect.stringMatching(/^[A-Z].*\.$/) });
  });
}

function accepts(texts: string[]): void {
  it.each(texts)('accepts %j', (text) => {
    expect(faultOf(text)).toBeUndefined();
    expect(() => JSON.parse(text)).not.toThrow();
  });
}

describe('the grammar of RFC 8259', () => {
  accepts([
    'null',
    'true',
    'false',
    '0',
    '-1.5e+3',
    '""',
    '[]',
    '{}',
    ' \t\r\n[ 1 , 2 ] \t\r\n',
    '{ "a" : { "b" : [ ] , "" : "" } }',
    String.raw`"\"\\\/\b\f\n\r\t\u00e9\u00E9"`,
    '"\u007f\u0080\u2028\ufeff\uffff"',
  ]);
  refuses([
    ['', 'malformed', '', 0],
    [' \n', 'malformed', '', 2],
    ['[1,]', 'malformed', '/1', 3],
    ['[,1]', 'malformed', '/0', 1],
    ['[1 2]', 'malformed', '', 3],
    ['[1', 'malformed', '', 2],
    ['[', 'malformed', '/0', 1],
    ['[1}', 'malformed', '', 2],
    ['{"a":[1}}', 'malformed', '/a', 7],
    ['{"a":1,}', 'malformed', '', 7],
    ['{"a":1', 'malformed', '', 6],
    ['{"a"}', 'malformed', '/a', 4],
    ['{"a" 1}', 'malformed', '/a', 5],
    ['{"a":}', 'malformed', '/a', 5],
    ['{a:1}', 'malformed', '', 1],
    ["{'a':1}", 'malformed', '', 1],
    ['{1:1}', 'malformed', '', 1],
    ['{"x":{"y":tru}}', 'malformed', '/x/y', 10],
    ['{"x":[0,nul]}', 'malformed', '/x/1', 8],
    ['True', 'malformed', '', 0],
    ['NaN', 'malformed', '', 0],
    ['undefined', 'malformed', '', 0],
    ['1 2', 'malformed', '', 2],
    ['{} x', 'malformed', '', 3],
    ['[]]', 'malformed', '', 2],
    ['1//', 'malformed', '', 1],
    ['\u00a01', 'malformed', '', 0],
    ['\ufeff{}', 'malformed', '', 0],
    ['\u0000', 'malformed', '', 0],
    ['1\u0000', 'malformed', '', 1],
    ['01', 'malformed', '', 0],
    ['-01', 'malformed', '', 1],
    ['-', 'malformed', '', 1],
    ['+1', 'malformed', '', 0],
    ['.5', 'malformed', '', 0],
    ['1.', 'malformed', '', 2],
    ['1.e2', 'malformed', '', 2],
    ['1e', 'malformed', '', 2],
    ['1e+', 'malformed', '', 3],
    ['0x10', 'malformed', '', 1],
    ['"', 'malformed', '', 1],
    ['"a', 'malformed', '', 2],
    ['"\\', 'malformed', '', 1],
    ['"\\"', 'malformed', '', 3],
    ['"\\x"', 'malformed', '', 1],
    ['"\\u12"', 'malformed', '', 1],
    ['"\\u12g4"', 'malformed', '', 1],
    ['"\\u', 'malformed', '', 1],
    ['"\\U0041"', 'malformed', '', 1],
    ['["a\tb"]', 'malformed', '/0', 3],
    ['["a\nb"]', 'malformed', '/0', 3],
    ['["\u0000"]', 'malformed', '/0', 2],
    ['{"a\u001f":1}', 'malformed', '', 3],
    ['{"a', 'malformed', '', 3],
  ]);
});

describe('characters that PostgreSQL cannot store', () => {
  accepts([
    String.raw`"\ud83d\ude00"`,
    '"😀"',
    String.raw`{"\ud83d\ude00":1,"😁":2}`,
    String.raw`"\u0001"`,
    String.raw`"\\u0000 \\ud800"`,
  ]);
  refuses([
    [String.raw`"\u0000"`, 'nul', '', 1],
    [String.raw`{"a":["x","y\u0000"]}`, 'nul', '/a/1', 12],
    [String.raw`{"a":{"k\u0000":1}}`, 'nul', '/a', 8],
    [String.raw`"\ud800"`, 'lone-surrogate', '', 1],
    [String.raw`["\uDBFF."]`, 'lone-surrogate', '/0', 2],
    [String.raw`"\udc00"`, 'lone-surrogate', '', 1],
    [String.raw`"\ude00\ud83d"`, 'lone-surrogate', '', 1],
    [String.raw`"\ud83d\ud83d\ude00"`, 'lone-surrogate', '', 1],
    [String.raw`"\ud83d\ude00\ude00"`, 'lone-surrogate', '', 13],
    [String.raw`"\ud83d\n"`, 'lone-surrogate', '', 1],
    [String.raw`"\ud83d\u12"`, 'lone-surrogate', '', 1],
    [String.raw`{"a":{"\ud800":1}}`, 'lone-surrogate', '/a', 7],
    ['"\ud83d"', 'lone-surrogate', '', 1],
    ['"\ude00"', 'lone-surrogate', '', 1],
    ['"\ude00\ud83d"', 'lone-surrogate', '', 1],
    ['"\ud83d\\ude00"', 'lone-surrogate', '', 1],
    ['"\\ud83d\ude00"', 'lone-surrogate', '', 1],
    ['{"a\ud83d":1}', 'lone-surrogate', '', 3],
  ]);
});

describe('keys', () => {
  accepts([
    '{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}',
    '{"a":1,"A":2,"a ":3,"":4}',
    '{"constructor":1,"prototype":{}}',
    '{"constructor":{"name":"x"}}',
    '{"constructor":[{"prototype":1}]}',
    '{"constructor":{"a":{"prototype":1}}}',
    '[{"constructor":1},{"prototype":2}]',
    '[{"constructor":{}},{"prototype":2}]',
    '{"constructor":{},"b":{"prototype":2}}',
    '{"__proto":1,"proto__":2,"toString":3}',
    '["__proto__"]',
  ]);
  refuses([
    ['{"a":1,"a":1}', 'duplicate-key', '/a', 7],
    [String.raw`{"a":1,"\u0061":2}`, 'duplicate-key', '/a', 7],
    [String.raw`{"\u0061":1,"a":2}`, 'duplicate-key', '/a', 12],
    [String.raw`{"😀":1,"\ud83d\ude00":2}`, 'duplicate-key', '/😀', 8],
    ['{"":1,"":2}', 'duplicate-key', '/', 6],
    ['{"x":[0,{"b":1,"c":{},"b":2}]}', 'duplicate-key', '/x/1/b', 22],
    ['{"b":{"a":1},"c":2,"b":3}', 'duplicate-key', '/b', 19],
    ['{"__proto__":null}', 'unsafe-key', '/__proto__', 1],
    ['{"a":[{"__proto__":{}}]}', 'unsafe-key', '/a/0/__proto__', 7],
    [String.raw`{"\u005f_proto__":1}`, 'unsafe-key', '/__proto__', 1],
    [String.raw`{"__proto_\u005F":1}`, 'unsafe-key', '/__proto__', 1],
    ['{"constructor":{"prototype":{}}}', 'unsafe-key', '/constructor/prototype', 16],
    ['{"constructor":{"a":{"b":[]},"prototype":1}}', 'unsafe-key', '/constructor/prototype', 29],
    [String.raw`[{"constructo\u0072":{"p\u0072ototype":1}}]`, 'unsafe-key', '/0/constructor/prototype', 22],
  ]);

  it('finds a duplicate key in any place, among few or many keys', () => {
    for (const count of [2, 31, 32, 33, 34, 64, 500]) {
      for (const twin of [0, 1, Math.floor(count / 2), count - 1]) {
        const members = Array.from({ length: count }, (_, i) => `"k${i}":{"k0":[{"k0":1}]}`).join();
        expect(faultOf(`{${members}}`)).toBeUndefined();
        for (const again of [`"k${twin}"`, `"\\u006b${twin}"`]) {
          const fault = { code: 'duplicate-key', pointer: `/k${twin}`, offset: members.length + 2 };
          expect(faultOf(`{${members},${again}:0,"x":1}`)).toMatchObject(fault);
        }
      }
    }
  });
});

describe('keys of many objects', () => {
  it('allows the same keys in different objects, no matter how many', () => {
    const wide = `{${Array.from({ length: 40 }, (_, i) => `"k${i}":0`).join()}}`;
    expect(faultOf(`[${wide},${wide},{"a":${wide}},${wide}]`)).toBeUndefined();
    expect(faultOf(`[${wide},${wide.replace('"k39"', '"k38"')}]`)?.pointer).toBe('/1/k38');
  });

  it('distinguishes two keys with the same hash', () => {
    const lexer = new JsonLexer();
    const seen = new SeenKeys(lexer);
    lexer.load('"a""b""\\u0061"', false);
    seen.reserve(1);
    seen.open(0);
    lexer.keyHash = 7;
    expect([seen.add(0, 0, 3), seen.add(0, 3, 6), seen.add(0, 6, 14)]).toEqual([true, true, false]);
  });
});

describe('numbers', () => {
  accepts([
    ...['0', '-0', '-0.0', '0e5', '0.0e-5', '0.1', '1.10', '100', '1e2', '1E+2', '10e-1', '1e0002'],
    ...['123456789012345', '1234567890123456', '9007199254740991', '9007199254740992', '-9007199254740991'],
    ...['1e21', '1e22', '1e23', '123456789012345680000', '0.30000000000000004', '1.7976931348623157e308'],
    ...[
      '5e-324',
      '2.2250738585072014e-308',
      '0.000001',
      '1e-7',
      '100000000000000000000000',
      '1.50000000000000000',
    ],
    ...['0.00000000000000000000000000000000000001e38', '1000000000000000000000e-21', '0e999999999'],
  ]);
  refuses([
    ['9007199254740993', 'inexact-number', '', 0],
    ['{"a":[-9007199254740993]}', 'inexact-number', '/a/0', 6],
    ['1e400', 'inexact-number', '', 0],
    ['-1e400', 'inexact-number', '', 0],
    ['1e-400', 'inexact-number', '', 0],
    ['[0.1,0.1000000000000000055511151231257827]', 'inexact-number', '/1', 5],
    ['1.7976931348623159e308', 'inexact-number', '', 0],
    ['4.9406564584124654e-324', 'inexact-number', '', 0],
    ['3e-324', 'inexact-number', '', 0],
    ['123456789012345678', 'inexact-number', '', 0],
    ['0.12345678901234567890', 'inexact-number', '', 0],
    ['1e999999999999999999999', 'inexact-number', '', 0],
  ]);

  it('refuses more zeros after the point than a double needs, which PostgreSQL would print or reject', () => {
    expect(faultOf(`1.${'0'.repeat(324)}`)).toBeUndefined();
    expect(faultOf(`1.${'0'.repeat(325)}`)?.code).toBe('inexact-number');
    expect(faultOf('0e-16383')?.code).toBe('inexact-number');
    expect(faultOf('0e99999999999')?.code).toBe('inexact-number');
  });

  it('quotes at most 40 characters of a number', () => {
    expect(faultOf('9'.repeat(1_000))?.detail).toBe(
      `The number ${'9'.repeat(40)}… cannot be represented exactly.`,
    );
  });
});

describe('depth', () => {
  it('allows 64 levels and refuses the 65th', () => {
    expect(faultOf('['.repeat(64) + ']'.repeat(64))).toBeUndefined();
    expect(faultOf('['.repeat(65) + ']'.repeat(65))).toMatchObject({
      code: 'too-deep',
      pointer: '/0'.repeat(64),
      offset: 64,
    });
    expect(faultOf(`${'{"a":'.repeat(65)}1${'}'.repeat(65)}`)?.pointer).toBe('/a'.repeat(64));
  });

  it('uses a limit of the caller for one call only', () => {
    const text = '['.repeat(100) + ']'.repeat(100);
    expect(faultOf(text, { maxDepth: 100 })).toBeUndefined();
    expect(faultOf(text, { maxDepth: 99 })?.pointer).toBe('/0'.repeat(99));
    expect(faultOf(text)?.pointer).toBe('/0'.repeat(64));
    expect(faultOf('[]', { maxDepth: 0 })).toMatchObject({ code: 'too-deep', pointer: '' });
    expect(faultOf('1', { maxDepth: 0 })).toBeUndefined();
  });
});

describe('pointers', () => {
  it('escapes ~ and / and counts elements', () => {
    const text = '{"messages":[1,2,{},{"payload":{"a/b":{"m~n":[[],[1e400]]}}}]}';
    expect(faultOf(text)?.pointer).toBe('/messages/3/payload/a~1b/m~0n/1/0');
  });

  it('use the unescaped keys', () => {
    expect(faultOf(String.raw`{"\u0061\"\/":1e400}`)?.pointer).toBe('/a"~1');
  });
});

describe('slices', () => {
  const message =
    ' { "type" : "t" , "payload" : {"a" :[ 1.10, 2 ]} , "\\u0069d":"x","n":-0,"b":true,"z":null} ';

  it('returns the members of the document as they were sent', () => {
    const document = sliceOf(message);
    expect(document.children?.map((m) => [m.key, m.kind, message.slice(m.start, m.end)])).toEqual([
      ['type', 'string', '"t"'],
      ['payload', 'object', '{"a" :[ 1.10, 2 ]}'],
      ['id', 'string', '"x"'],
      ['n', 'number', '-0'],
      ['b', 'boolean', 'true'],
      ['z', 'null', 'null'],
    ]);
    expect(message.slice(document.start, document.end)).toBe(message.trim());
    expect(document.children?.every((member) => member.children === undefined)).toBe(true);
  });

  it('returns a scalar document, and an empty outline', () => {
    expect(sliceOf(' 12 ')).toEqual({ kind: 'number', key: '', start: 1, end: 3, children: undefined });
    expect(sliceOf('[1]', { outline: 0 })).toEqual({
      kind: 'array',
      key: '',
      start: 0,
      end: 3,
      children: undefined,
    });
    expect(sliceOf('[]').children).toEqual([]);
  });

  it('outlines a batch down to the fields of each message', () => {
    const text = '{"messages":[{"type":"a","payload":{"x":1}}, 7, {"type":"b","payload":[ ]}]}';
    const [messages] = sliceOf(text, { outline: 3 }).children!;
    const [first, number, third] = messages!.children!;
    expect(number).toMatchObject({ kind: 'number', children: undefined });
    expect(first!.children!.map((m) => text.slice(m.start, m.end))).toEqual(['"a"', '{"x":1}']);
    expect(third!.children!.map((m) => m.key)).toEqual(['type', 'payload']);
    expect(third!.children![1]).toMatchObject({ kind: 'array', children: undefined });
  });

  it('scans a part of a text as if it were alone, with offsets in the whole text', () => {
    const text = '{"messages":[{"a":1}, {"b":{"c":1e400}} ]}';
    const part = { start: text.indexOf('{"b"'), end: text.indexOf(' ]}'), pointer: '/messages/1' };
    expect(faultOf(text, part)).toMatchObject({ pointer: '/messages/1/b/c', offset: text.indexOf('1e400') });
    expect(sliceOf(text, { start: 13, end: 20 })).toMatchObject({
      start: 13,
      end: 20,
      children: [{ key: 'a', start: 18, end: 19 }],
    });
    expect(faultOf(text, { start: 13, end: 19 })).toMatchObject({ code: 'malformed', offset: 19 });
  });

  it('finds every bad element of a batch: outline by the grammar, then scan each element', () => {
    const text = String.raw`{"messages":[{"a":1e400},{"a":1},{"a":"\u0000"},{"a":1,"a":2},{"__proto__":0},[[[[]]]]]}`;
    const [messages] = sliceOf(text, { outline: 2, grammarOnly: true }).children!;
    const pointers = messages!.children!.map(({ start, end }, i) =>
      faultOf(text, { start, end, pointer: `/messages/${i}`, maxDepth: 3 }),
    );
    expect(pointers.map((fault) => fault && `${fault.code} ${fault.pointer}`)).toEqual([
      'inexact-number /messages/0/a',
      undefined,
      'nul /messages/2/a',
      'duplicate-key /messages/3/a',
      'unsafe-key /messages/4/__proto__',
      'too-deep /messages/5/0/0/0',
    ]);
  });

  it('is independent of the previous scan', () => {
    const wide = `{${Array.from({ length: 40 }, (_, i) => `"k${i}":0`).join()}`;
    for (const before of [
      `${wide},"k1":1}`,
      wide,
      '{"constructor":',
      '[[[{"a":"\\ud800',
      `"${'x'.repeat(500)}`,
    ]) {
      expect(faultOf(before)).toBeDefined();
      expect(faultOf(`${wide}}`)).toBeUndefined();
      expect(faultOf('{"prototype":{"a":1},"a":[]}')).toBeUndefined();
      expect(faultOf('"')).toMatchObject({ code: 'malformed', offset: 1 });
    }
  });
});

describe('a text that would take too much memory or time', () => {
  const faultOf = (text: string, options: ScanOptions) => {
    const result = ExactJson.scan(text, options);
    return result.ok ? undefined : { ...result.fault, offset: result.fault.offset };
  };
  const members = (count: number) => Array.from({ length: count }, (_, n) => `"k${n}":0`).join();

  it('is rejected at the first child over the limit of a container in the outline, which is named', () => {
    const options = { outline: 3, maxChildren: [2, 3, 1] };
    expect(faultOf('{"a":[{"b":1},{},0],"c":[1,2,3]}', options)).toBeUndefined();
    expect(faultOf('{"c":[1,2,3, 4,5,nonsense', options)).toEqual({
      code: 'too-many',
      pointer: '/c',
      offset: 13,
      detail: 'must not have more than 3 items',
    });
    expect(faultOf('{"c":[{"x":1,"y":2}]}', options)).toMatchObject({ pointer: '/c/0' });
    expect(faultOf('{"a":1,"b":2,"c":3}', options)).toMatchObject({
      pointer: '',
      detail: 'must not have more than 2 members',
    });
    expect(faultOf('{"a":{"b":{"c":{"d":1,"e":2}}}}', options)).toBeUndefined();
    expect(faultOf('[1,2,3]', { ...options, grammarOnly: true })).toMatchObject({ code: 'too-many' });
  });

  it('is rejected at the first value over the limit of a text, at any depth', () => {
    const text = '{"a":[1,{"b":2}]}';
    expect(faultOf(text, { maxValues: 5 })).toBeUndefined();
    expect(faultOf(text, { maxValues: 4 })).toEqual({
      code: 'too-many',
      pointer: '',
      offset: 13,
      detail: 'must not contain more than 4 values',
    });
    expect(faultOf(`[${'0,'.repeat(999_998)}0]`, {})).toBeUndefined();
    expect(faultOf(`[${'0,'.repeat(999_999)}0]`, {})).toMatchObject({ code: 'too-many', pointer: '' });
  });

  it('is rejected when large objects have too many keys; the next text starts over', () => {
    const large = `{${members(150_000)}}`;
    expect(faultOf(`[${large},${large}]`, {})).toBeUndefined();
    expect(faultOf(`[${large},${large},${large}]`, {})).toMatchObject({ code: 'too-many', pointer: '' });
    expect(faultOf(large, {})).toBeUndefined();
  });
});

describe('decodeUtf8', () => {
  it.each(['', '{"a":1}', '"é"', '"😀"', '\ufeff{}', '"\u0000"'])('returns %j unchanged', (text) => {
    expect(decodeUtf8(Buffer.from(text))).toBe(text);
  });

  it.each(['ff', '22c322', 'c0af', 'eda080', 'f4908080', '22e282'])('refuses the bytes %s', (hex) => {
    expect(decodeUtf8(Buffer.from(hex, 'hex'))).toBeUndefined();
  });
});
