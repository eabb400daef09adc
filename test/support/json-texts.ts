import fc from 'fast-check';

/** JSON texts in all notations: whitespace, escapes, number formats. Each has an exact value. */
export const jsonText: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom('null', 'true', 'false', '""', '[]', '{}', '0', '-0'),
    numberText(),
    stringText(),
    fc
      .array(tie('value'), { maxLength: 4 })
      .chain((items) => spaced(items, (item) => item).map((text) => `[${text}]`)),
    fc
      .uniqueArray(fc.tuple(keyText(), tie('value')), { maxLength: 4, selector: ([key]) => JSON.parse(key) })
      .chain((members) => spaced(members, ([key, value]) => `${key}:${value}`).map((text) => `{${text}}`)),
  ),
})).value;

/** A text with one to three random corruptions; it may still be well-formed. */
export function corrupted(text: fc.Arbitrary<string>): fc.Arbitrary<Buffer> {
  const corruption = fc.record({
    at: fc.nat(),
    cut: fc.nat({ max: 3 }),
    put: fc.constantFrom(...CORRUPTIONS),
  });
  return fc
    .tuple(text, fc.array(corruption, { minLength: 1, maxLength: 3 }))
    .map(([whole, corruptions]) => corruptions.reduce(corrupt, Buffer.from(whole)));
}

function corrupt(bytes: Buffer, { at, cut, put }: { at: number; cut: number; put: Buffer }): Buffer {
  const from = at % (bytes.length + 1);
  return Buffer.concat([bytes.subarray(0, from), put, bytes.subarray(from + cut)]);
}

const CORRUPTIONS: readonly Buffer[] = [
  ...['', '"', '\\', '{', '}', '[', ']', ',', ':', '\n', '\u0000', '\u001f', '\u007f', '\ufeff', '\u2028'],
  ...['\\u0000', '\\ud83d', '\\ude00', '\\u00', '\\x', '"a":1,"a":2', '"__proto__":{}', 'constructor', '/*'],
  ...['1e999', '1e-999', '0e99999999999', '9007199254740993', '00', '-', '1.', 'NaN', 'Infinity', "'", 'é😀'],
  ...['['.repeat(70), '{"a":'.repeat(70), ' '.repeat(3000), '"type":', '"payload":null,', '"id":"fuzzed",'],
]
  .map((text) => Buffer.from(text))
  .concat(
    [[0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0x80]].map((raw) =>
      Buffer.from(raw),
    ),
  );

function numberText(): fc.Arbitrary<string> {
  return fc.oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => JSON.stringify(number)),
    fc.maxSafeInteger().map(String),
    fc.constantFrom('1.50', '1e2', '1E+2', '0.10', '-0.0', '100e-2', '5e-324', '1.7976931348623157e308'),
  );
}

function stringText(): fc.Arbitrary<string> {
  const unit = fc.constantFrom(
    ...['a', 'é', '語', '😀', '\u2028', '\ufffe', '\u007f', '/', '~', ' '],
    ...['\\n', '\\"', '\\\\', '\\/', '\\u0041', '\\u00e9', '\\ud83d\\ude00', '\\u2028', '\\u001f'],
  );
  return fc.array(unit, { maxLength: 6 }).map((units) => `"${units.join('')}"`);
}

function keyText(): fc.Arbitrary<string> {
  return fc.oneof(
    stringText(),
    fc.constantFrom('"constructor"', '"prototype"', '"toString"', '"1"', '"payload"'),
  );
}

function spaced<T>(items: readonly T[], write: (item: T) => string): fc.Arbitrary<string> {
  return fc.constantFrom(',', ' , ', ',\n\t', ',\r').map((comma) => items.map(write).join(comma));
}
