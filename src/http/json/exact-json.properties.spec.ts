import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { ExactJson, type JsonSlice } from './exact-json.ts';

const RUNS = { seed: 20_260_101, numRuns: 2_000 };

/** A JSON text before it is written: keeps equal keys, the form of a number, and which characters are escaped. */
type Tree =
  | { kind: 'object'; members: { key: Text; value: Tree }[]; space: string }
  | { kind: 'array'; elements: Tree[]; space: string }
  | { kind: 'string'; text: Text }
  | { kind: 'number'; token: string }
  | { kind: 'literal'; token: string };
type Text = { says: string; escapeEvery: number };

const character = fc.constantFrom(
  'a',
  'b',
  '~',
  '/',
  '"',
  '\\',
  '\n',
  '\u007f',
  'é',
  '\u2028',
  '😀',
  '\ufffe',
);
const badCharacter = fc.constantFrom('\u0000', '\ud83d', '\ude00');
const says = fc.oneof(
  { weight: 30, arbitrary: fc.string({ unit: character, maxLength: 4 }) },
  { weight: 2, arbitrary: fc.constantFrom('__proto__', 'constructor', 'prototype', 'type', 'payload') },
  { weight: 1, arbitrary: fc.string({ unit: fc.oneof(character, badCharacter), maxLength: 4 }) },
);
const text: fc.Arbitrary<Text> = fc.record({ says, escapeEvery: fc.constantFrom(0, 0, 0, 1, 2) });

const digits = (maxLength: number) =>
  fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 1, maxLength });
const numberToken = fc.oneof(
  { weight: 8, arbitrary: fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => JSON.stringify(n)) },
  { weight: 8, arbitrary: fc.integer().map(String) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(
        fc.constantFrom('', '-'),
        digits(20),
        fc.option(digits(20)),
        fc.option(fc.integer({ min: -340, max: 320 })),
      )
      .map(([sign, whole, fraction, exponent]) => {
        const trimmed = whole.replace(/^0+(?=\d)/, '');
        return `${sign}${trimmed}${fraction === null ? '' : `.${fraction}`}${exponent === null ? '' : `e${exponent}`}`;
      }),
  },
);

const space = fc.constantFrom('', '', ' ', '\n\t');
const tree: fc.Arbitrary<Tree> = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    text.map((it): Tree => ({ kind: 'string', text: it })),
    numberToken.map((token): Tree => ({ kind: 'number', token })),
    fc.constantFrom('true', 'false', 'null').map((token): Tree => ({ kind: 'literal', token })),
    fc.record({
      kind: fc.constant('object' as const),
      members: fc.array(fc.record({ key: text, value: tie('tree') }), { maxLength: 4 }),
      space,
    }),
    fc.record({
      kind: fc.constant('array' as const),
      elements: fc.array(tie('tree'), { maxLength: 4 }),
      space,
    }),
  ),
})).tree;

function write(it: Tree): string {
  if (it.kind === 'string') return writeText(it.text);
  if (it.kind === 'number' || it.kind === 'literal') return it.token;
  const pad = it.space;
  if (it.kind === 'array') return `[${pad}${it.elements.map(write).join(`${pad},${pad}`)}${pad}]`;
  const members = it.members.map(({ key, value }) => `${writeText(key)}${pad}:${pad}${write(value)}`);
  return `{${pad}${members.join(`${pad},${pad}`)}${pad}}`;
}

function writeText({ says, escapeEvery }: Text): string {
  const written = Array.from({ length: says.length }, (_, i) => {
    const unit = says.charCodeAt(i);
    // A pair is escaped as a whole or not at all.
    const isEscaped =
      escapeEvery > 0 && (escapeEvery === 1 || (i % escapeEvery === 0 && (unit & 0xf800) !== 0xd800));
    if (unit === 0 || isEscaped) return `\\u${unit.toString(16).padStart(4, '0')}`;
    return '"\\\n'.includes(says[i]!) ? JSON.stringify(says[i]).slice(1, -1) : says[i];
  });
  return `"${written.join('')}"`;
}

/** A second, simple implementation of the rules: the first fault in reading order, as `code pointer`. */
function judge(it: Tree, pointer = '', isConstructor = false): string | undefined {
  if (it.kind === 'string') return judgeText(it.text.says, pointer);
  if (it.kind === 'number') return isExact(it.token) ? undefined : `inexact-number ${pointer}`;
  if (it.kind === 'array') return firstOf(it.elements, (element, i) => judge(element, `${pointer}/${i}`));
  if (it.kind === 'literal') return undefined;
  const seen = new Set<string>();
  return firstOf(it.members, ({ key: { says: key }, value }) => {
    const bad = judgeText(key, pointer);
    if (bad) return bad;
    const at = `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    if (key === '__proto__' || (key === 'prototype' && isConstructor)) return `unsafe-key ${at}`;
    if (seen.size === seen.add(key).size) return `duplicate-key ${at}`;
    return judge(value, at, key === 'constructor');
  });
}

function judgeText(says: string, pointer: string): string | undefined {
  return firstOf([...says], (point) => {
    if (point === '\u0000') return `nul ${pointer}`;
    return /^[\ud800-\udfff]$/.test(point) ? `lone-surrogate ${pointer}` : undefined;
  });
}

function firstOf<T>(items: T[], fault: (item: T, i: number) => string | undefined): string | undefined {
  for (const [i, item] of items.entries()) {
    const found = fault(item, i);
    if (found) return found;
  }
  return undefined;
}

function isExact(token: string): boolean {
  const number = Number(token);
  return Number.isFinite(number) && scaled(token) === scaled(String(Math.abs(number)));
}

/** The absolute value times 10^1000, as an integer. */
function scaled(token: string): bigint {
  const [mantissa, exponent = '0'] = token
    .toLowerCase()
    .replace('-', (minus, at) => (at === 0 ? '' : minus))
    .split('e');
  const [whole, fraction = ''] = mantissa!.split('.');
  return BigInt(whole + fraction) * 10n ** BigInt(1_000 + Number(exponent) - fraction.length);
}

function scan(text: string): string | undefined {
  const result = ExactJson.scan(text);
  return result.ok ? undefined : `${result.fault.code} ${result.fault.pointer}`;
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The value built from the slices of an outline. */
function assemble(text: string, slice: JsonSlice): unknown {
  if (!slice.children) return JSON.parse(text.slice(slice.start, slice.end));
  const children = slice.children.map((child) => [child.key, assemble(text, child)] as const);
  return slice.kind === 'array' ? children.map(([, value]) => value) : Object.fromEntries(children);
}

const change = fc.record({
  at: fc.nat(),
  cut: fc.nat({ max: 2 }),
  put: fc.oneof(
    fc.constantFrom(...'{}[]",:\\u0019.eE+- tfn\u0001\ufeff', '\\u0000', '\\ud800', ',"a":1', ''),
    fc.string(),
  ),
});

function applied(text: string, changes: { at: number; cut: number; put: string }[]): string {
  return changes.reduce((now, { at, cut, put }) => {
    const i = at % (now.length + 1);
    return now.slice(0, i) + put + now.slice(i + cut);
  }, text);
}

describe('ExactJson with random texts', () => {
  it('accepts a text if and only if it obeys the rules, and names the first fault', () => {
    const verdicts = new Set<string | undefined>();
    fc.assert(
      fc.property(tree, (it) => {
        const expected = judge(it);
        verdicts.add(expected?.split(' ')[0]);
        expect(scan(write(it))).toBe(expected);
      }),
      { ...RUNS, numRuns: 4_000 },
    );
    // The texts above must include valid ones and violations of every rule.
    expect([...verdicts].map(String).sort()).toEqual(
      ['duplicate-key', 'inexact-number', 'lone-surrogate', 'nul', 'undefined', 'unsafe-key'].sort(),
    );
  });

  it('accepts everything that JSON.stringify writes of well-formed values', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'grapheme', maxDepth: 6 }), (value) => {
        const written = JSON.stringify(value);
        const isHarmful = /\\u0000|"__proto__":|"prototype":/.test(written);
        if (!isHarmful) expect(scan(written)).toBeUndefined();
        expect(scan(JSON.stringify(value, null, 2))).toBe(scan(written));
      }),
      RUNS,
    );
  });

  it('keeps the value of every accepted text through parsing and writing', () => {
    fc.assert(
      fc.property(tree, (it) => {
        const written = write(it);
        if (scan(written) !== undefined) return;
        const again = JSON.stringify(JSON.parse(written));
        expect(scan(again)).toBeUndefined();
        expect(JSON.stringify(JSON.parse(again))).toBe(again);
      }),
      RUNS,
    );
  });

  it('returns slices that make up the value, at any depth of the outline', () => {
    fc.assert(
      fc.property(tree, space, fc.nat({ max: 5 }), (it, pad, outline) => {
        const written = pad + write(it) + pad;
        const result = ExactJson.scan(written, { outline });
        if (!result.ok) return;
        expect(assemble(written, result.value)).toEqual(JSON.parse(written));
        for (const child of result.value.children ?? []) {
          const { start, end } = child;
          const alone = ExactJson.scan(written, { start, end, outline: outline - 1 });
          expect(alone).toEqual({ ok: true, value: { ...child, key: '' } });
        }
      }),
      RUNS,
    );
  });

  it('agrees with JSON.parse on what is malformed, for texts with random damage', () => {
    let damaged = 0;
    fc.assert(
      fc.property(tree, fc.array(change, { minLength: 1, maxLength: 3 }), (it, changes) => {
        const written = applied(write(it), changes);
        const isJson = parses(written);
        const verdict = scan(written);
        if (!isJson) damaged++;
        expect(ExactJson.scan(written, { grammarOnly: true }).ok).toBe(isJson);
        if (verdict === undefined) expect(isJson).toBe(true);
        if (verdict?.startsWith('malformed')) expect(isJson).toBe(false);
      }),
      { ...RUNS, numRuns: 4_000 },
    );
    expect(damaged).toBeGreaterThan(1_000);
  });

  it('decides about any number token as exact arithmetic does', () => {
    fc.assert(
      fc.property(numberToken, (token) => {
        expect(scan(token)).toBe(isExact(token) ? undefined : 'inexact-number ');
      }),
      RUNS,
    );
  });
});

describe('ExactJson with malicious texts', () => {
  const MEBIBYTE = 2 ** 20;
  const many = (count: number, member: (i: number) => string) =>
    `{${Array.from({ length: count }, (_, i) => member(i)).join()}}`;

  it.each([
    ['opening brackets', () => '['.repeat(MEBIBYTE), 'too-deep'],
    ['opening objects', () => '{"a":'.repeat(MEBIBYTE / 5), 'too-deep'],
    ['closing brackets', () => ']'.repeat(MEBIBYTE), 'malformed'],
    ['spaces', () => ' '.repeat(MEBIBYTE), 'malformed'],
    ['empty arrays', () => `[${'[],'.repeat(MEBIBYTE / 3)}[]]`, undefined],
    ['digits', () => '9'.repeat(MEBIBYTE), 'inexact-number'],
    ['zeros after the point', () => `0.${'0'.repeat(MEBIBYTE)}1`, 'inexact-number'],
    ['a mantissa that its exponent cancels', () => `0.${'0'.repeat(MEBIBYTE)}1e${MEBIBYTE + 1}`, undefined],
    ['digits of an exponent', () => `1e${'0'.repeat(MEBIBYTE)}1`, undefined],
    ['one string', () => `"${'x'.repeat(MEBIBYTE)}"`, undefined],
    ['one string of escapes', () => `"${'\\ud83d\\ude00'.repeat(MEBIBYTE / 12)}"`, undefined],
    ['an unterminated string', () => `"${'\\\\'.repeat(MEBIBYTE / 2)}`, 'malformed'],
    ['one key', () => `{"${'k'.repeat(MEBIBYTE)}":1}`, undefined],
    ['100,000 keys', () => many(100_000, (i) => `"key${i}":1`), undefined],
    ['100,000 keys that look like numbers', () => many(100_000, (i) => `"${i * 131_072}":1`), undefined],
    ['100,000 escaped keys', () => many(100_000, (i) => `"\\u006b${i}":1`), undefined],
    ['the first of 100,000 keys again', () => many(100_001, (i) => `"key${i % 100_000}":1`), 'duplicate-key'],
    ['32 long keys', () => many(32, (i) => `"${'k'.repeat(32_000)}${i}":1`), undefined],
  ])('returns for 1 MiB of %s', (_name, text, code) => {
    const result = ExactJson.scan(text());
    expect(result.ok ? undefined : result.fault.code).toBe(code);
    expect(result.ok ? 0 : result.fault.detail.length).toBeLessThan(120);
  });
});
