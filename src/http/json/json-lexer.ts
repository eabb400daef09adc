import { randomInt } from 'node:crypto';
import { isExactNumber } from './exact-number.ts';
import type { JsonFault, JsonFaultCode } from './json-fault.ts';

/** Returned instead of the next position; `problem` then holds the error. */
export const REFUSED = -1;

// These constants are in this file on purpose: V8 reads an imported one from its module at every use (arrays of
// integers were scanned 1.5 times slower).
const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const PLUS = 0x2b;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const BACKSLASH = 0x5c;
const LOWER_E = 0x65;
const LOWER_U = 0x75;
const BYTE_ORDER_MARK = 0xfeff;

/** By UTF-16 unit: 1 if it is literal in a string and needs no further check. */
const PLAIN = new Uint8Array(0x10000).fill(1, SPACE).fill(0, 0xd800, 0xe000);
PLAIN[QUOTE] = 0;
PLAIN[BACKSLASH] = 0;

/** By UTF-16 unit: 1 if it may follow a backslash, except u. */
const SHORT_ESCAPE = new Uint8Array(0x10000);
for (const c of '"\\/bfnrt') SHORT_ESCAPE[c.charCodeAt(0)] = 1;

/** Odd, and random per process, so that a client cannot prepare keys that collide. */
const HASH_FACTOR = (randomInt(2 ** 31) * 2 + 1) | 0;

/** Space after the text, so that looking ahead needs no bounds check. */
const LOOK_AHEAD = 16;
const CHUNK = 0x10000;

/**
 * The tokens of RFC 8259, less those that JavaScript or PostgreSQL would alter. A method takes the position
 * where its token begins and returns the position after it, or REFUSED.
 */
export class JsonLexer {
  text = '';
  /** Check only the grammar. */
  grammarOnly = false;
  problem: Omit<JsonFault, 'pointer'> | undefined;
  /** The last key: a hash of its name, and whether it is written without escapes or surrogates. */
  keyHash = 0;
  keyIsPlain = true;
  /** The last key that was not plain, cached because its name is read up to four times. */
  private unusualQuote = -1;
  private unusualName = '';
  /**
   * The text's UTF-16 units, copied out of the string (0.15 µs; charCodeAt made a 374-byte scan 2.6 µs instead
   * of 1.6, and long strings four times slower). After the last comes a 0, which no token can hold.
   */
  private codes = new Uint16Array(0);
  private bytes = Buffer.alloc(0);

  load(text: string, grammarOnly: boolean): void {
    this.text = text;
    this.grammarOnly = grammarOnly;
    const room = text.length + LOOK_AHEAD;
    if (room > this.codes.length) {
      this.codes = new Uint16Array(Math.ceil(room / CHUNK) * CHUNK);
      this.bytes = Buffer.from(this.codes.buffer);
    }
    this.bytes.write(text, 'utf16le');
    this.codes[text.length] = 0;
  }

  release(): void {
    this.text = '';
    this.problem = undefined;
    this.unusualQuote = -1;
    this.unusualName = '';
  }

  /** The unit at a position, 0 at the end. */
  peek(i: number): number {
    return this.codes[i]!;
  }

  skipSpace(i: number): number {
    const { codes } = this;
    for (;;) {
      const c = codes[i]!;
      if (c > SPACE || (c !== SPACE && c !== LINE_FEED && c !== CARRIAGE_RETURN && c !== TAB)) return i;
      i++;
    }
  }

  literal(start: number, word: string): number {
    if (this.text.startsWith(word, start)) return start + word.length;
    return this.malformed(start, 'Expected a value here.');
  }

  string(quote: number): number {
    const { codes } = this;
    let i = quote + 1;
    for (;;) {
      let c = codes[i]!;
      while (PLAIN[c] === 1) c = codes[++i]!;
      if (c === QUOTE) return i + 1;
      i = this.unusual(i, c);
      if (i === REFUSED) return REFUSED;
    }
  }

  /** A string in the place of a key; sets keyHash and keyIsPlain. */
  key(quote: number): number {
    const { codes } = this;
    let hash = 0;
    let i = quote + 1;
    let c = codes[i]!;
    while (PLAIN[c] === 1) {
      hash = Math.imul(hash ^ c, HASH_FACTOR);
      c = codes[++i]!;
    }
    if (c !== QUOTE) return this.unusualKey(quote);
    this.keyHash = hash;
    this.keyIsPlain = true;
    return i + 1;
  }

  private unusualKey(quote: number): number {
    const after = this.string(quote);
    if (after === REFUSED) return REFUSED;
    const name = this.keyName(quote, after);
    let hash = 0;
    for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), HASH_FACTOR);
    this.unusualQuote = quote;
    this.unusualName = name;
    this.keyHash = hash;
    this.keyIsPlain = false;
    return after;
  }

  /** The unescaped name of a key that was read. */
  keyName(quote: number, after: number): string {
    if (quote === this.unusualQuote) return this.unusualName;
    const written = this.text.slice(quote + 1, after - 1);
    return written.includes('\\') ? JSON.parse(`"${written}"`) : written;
  }

  number(start: number): number {
    const whole = this.peek(start) === MINUS ? start + 1 : start;
    let i = this.skipDigits(whole);
    let digits = i - whole;
    if (digits === 0) return this.noNumber(i, i > start);
    if (digits > 1 && this.peek(whole) === ZERO) {
      return this.malformed(whole, 'A number must not have a leading zero.');
    }
    if (this.peek(i) === POINT) {
      const fraction = i + 1;
      i = this.skipDigits(fraction);
      if (i === fraction) return this.malformed(i, 'Expected a digit after the decimal point.');
      digits += i - fraction;
    }
    if ((this.peek(i) | 0x20) === LOWER_E) return this.exponent(start, i + 1);
    // No two decimals of at most 15 digits share a double, so each is read back unchanged.
    return digits <= 15 ? i : this.exact(start, i);
  }

  private noNumber(i: number, hasMinus: boolean): number {
    if (this.peek(i) === BYTE_ORDER_MARK) return this.malformed(i, 'A byte order mark is not part of JSON.');
    return this.malformed(i, hasMinus ? 'Expected a digit after the minus.' : 'Expected a value here.');
  }

  private exponent(start: number, i: number): number {
    const sign = this.peek(i);
    const first = sign === MINUS || sign === PLUS ? i + 1 : i;
    const after = this.skipDigits(first);
    if (after === first) return this.malformed(first, 'Expected a digit in the exponent.');
    return this.exact(start, after);
  }

  private exact(start: number, after: number): number {
    if (this.grammarOnly) return after;
    const token = this.text.slice(start, after);
    if (isExactNumber(token)) return after;
    const shown = token.length > 40 ? `${token.slice(0, 40)}…` : token;
    return this.refuse('inexact-number', start, `The number ${shown} cannot be represented exactly.`);
  }

  private skipDigits(i: number): number {
    const { codes } = this;
    while (isDigit(codes[i]!)) i++;
    return i;
  }

  /** A unit in a string that is not PLAIN. */
  private unusual(i: number, c: number): number {
    if (c === BACKSLASH) return this.escape(i);
    if (c >= SPACE) return this.rawSurrogates(i, c);
    if (i === this.text.length) return this.malformed(i, 'The text ends inside a string.');
    return this.malformed(i, 'A control character in a string must be escaped.');
  }

  private escape(backslash: number): number {
    const c = this.peek(backslash + 1);
    if (c === LOWER_U) return this.unicodeEscape(backslash);
    if (SHORT_ESCAPE[c] === 1) return backslash + 2;
    return this.malformed(backslash, 'Unknown escape sequence in a string.');
  }

  private unicodeEscape(backslash: number): number {
    const after = backslash + 6;
    const unit = hexadecimal(this.codes, backslash + 2);
    if (unit < 0) return this.malformed(backslash, 'Expected four hexadecimal digits after \\u.');
    if (unit === 0)
      return this.altered('nul', backslash, 'The character NUL (\\u0000) cannot be stored.', after);
    if (!isSurrogate(unit)) return after;
    const isFollowed = this.peek(after) === BACKSLASH && this.peek(after + 1) === LOWER_U;
    if (isFollowed && isSurrogatePair(unit, hexadecimal(this.codes, after + 2))) return after + 6;
    return this.loneSurrogate(backslash, after);
  }

  /** A pair that is half raw and half escaped is rejected too: the raw half does not survive UTF-8. */
  private rawSurrogates(i: number, unit: number): number {
    return isSurrogatePair(unit, this.peek(i + 1)) ? i + 2 : this.loneSurrogate(i, i + 1);
  }

  private loneSurrogate(offset: number, after: number): number {
    return this.altered('lone-surrogate', offset, 'An unpaired surrogate cannot be stored.', after);
  }

  malformed(offset: number, detail: string): typeof REFUSED {
    return this.refuse('malformed', offset, detail);
  }

  /** For text that is well-formed but would not be read back unchanged. */
  private altered(code: JsonFaultCode, offset: number, detail: string, after: number): number {
    return this.grammarOnly ? after : this.refuse(code, offset, detail);
  }

  refuse(code: JsonFaultCode, offset: number, detail: string): typeof REFUSED {
    this.problem = { code, offset, detail };
    return REFUSED;
  }
}

function isDigit(c: number): boolean {
  return c >= ZERO && c <= NINE;
}

export function isSurrogate(unit: number): boolean {
  return (unit & 0xf800) === 0xd800;
}

export function isSurrogatePair(high: number, low: number): boolean {
  return (high & 0xfc00) === 0xd800 && (low & 0xfc00) === 0xdc00;
}

/** The value of the four hexadecimal digits at a position; negative unless all four are digits. */
export function hexadecimal(units: Uint16Array, at: number): number {
  const high = (digit(units[at]!) << 12) | (digit(units[at + 1]!) << 8);
  return high | (digit(units[at + 2]!) << 4) | digit(units[at + 3]!);
}

function digit(unit: number): number {
  if (unit >= 0x30 && unit <= 0x39) return unit - 0x30;
  const letter = unit | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x61 + 10 : -1;
}
