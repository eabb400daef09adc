/**
 * The most digits after the decimal point that a double needs (5e-324). Further digits can only be zeros, which PostgreSQL
 * would keep and print: a 1 MiB array of `0e-16383` reads back from jsonb as 2 GB. Beyond 16383 PostgreSQL fails.
 */
const MAX_PLACES = 324;

/** PostgreSQL reads `0e999999999` as zero and fails on `0e99999999999`. */
const MAX_EXPONENT = 999_999_999;

const MINUS = 0x2d;
const ZERO = 0x30;

/**
 * Whether a JSON number keeps its value in JavaScript and in PostgreSQL: `String(Number(token))` writes the same
 * decimal value. That is true for `1.10`, `1e2` and `0.1`, and false for `9007199254740993`, `1e400` and `1e-400`.
 * The caller has checked the grammar.
 */
export function isExactNumber(token: string): boolean {
  const number = Number(token);
  if (!Number.isFinite(number)) return false;

  const written = String(number);
  if (written === token) return true;

  const sent = decimalOf(token);
  if (sent.places > MAX_PLACES || sent.exponent > MAX_EXPONENT) return false;

  const held = decimalOf(written);
  return sent.digits === held.digits && (sent.power === held.power || sent.digits === '');
}

/** The value is ± 0.digits × 10^power; digits has no zero at either end, so equal values have equal forms. */
interface Decimal {
  digits: string;
  power: number;
  places: number;
  exponent: number;
}

function decimalOf(token: string): Decimal {
  const sign = token.charCodeAt(0) === MINUS ? 1 : 0;
  const e = Math.max(token.indexOf('e'), token.indexOf('E'));
  const mantissa = e < 0 ? token.slice(sign) : token.slice(sign, e);
  const exponent = e < 0 ? 0 : Number(token.slice(e + 1));

  const point = mantissa.indexOf('.');
  const whole = point < 0 ? mantissa : mantissa.slice(0, point);
  const fraction = point < 0 ? '' : mantissa.slice(point + 1);

  const digits = whole + fraction;
  let first = 0;
  let end = digits.length;
  while (first < end && digits.charCodeAt(first) === ZERO) first++;
  while (end > first && digits.charCodeAt(end - 1) === ZERO) end--;

  return {
    digits: digits.slice(first, end),
    power: whole.length - first + exponent,
    places: fraction.length - exponent,
    exponent,
  };
}
