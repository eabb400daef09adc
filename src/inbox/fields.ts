import type { JsonSlice } from '../http/json/exact-json.ts';
import type { FieldFault } from '../http/problems.ts';

export const LONGEST_TYPE = 200;
export const LONGEST_ID = 200;
export const LONGEST_KEY_BYTES = 256;
export const LARGEST_BATCH = 1_000;
const MOST_HEADERS = 50;
const LONGEST_HEADER_NAME = 64;
const LONGEST_HEADER_VALUE = 2_048;

const CONTROL = /[\u0000-\u001f\u007f]/;
const HEADER_NAME = /^(?!__proto__$)[A-Za-z0-9_.-]+$/;
/** Date.parse alone would take 24:00 for an hour. */
const TIME = /^(\d{4})-(\d\d)-(\d\d)T(?:[01]\d|2[0-3]):\d\d:\d\d(\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/i;

/** Told of one message; a body of 100,000 unknown fields is not answered with as many faults. */
export const MOST_FAULTS = 20;

/** Checks written out by hand: on this path a validation library halves the rate of the whole service. */
export class Faults {
  readonly list: FieldFault[] = [];

  add(pointer: string, detail: string): undefined {
    this.list.push({ pointer, detail });
    return undefined;
  }
}

/** A non-empty text without control characters, of at most so many characters. */
export function checkText(
  text: string,
  longest: number,
  pointer: string,
  faults: Faults,
): string | undefined {
  if (text.length === 0) return faults.add(pointer, 'must not be empty');
  if (text.length > longest) return faults.add(pointer, `must not be longer than ${longest} characters`);
  if (CONTROL.test(text)) return faults.add(pointer, 'must not hold control characters');
  return text;
}

export function checkKey(text: string, pointer: string, faults: Faults): string | undefined {
  if (text.length * 3 > LONGEST_KEY_BYTES && Buffer.byteLength(text) > LONGEST_KEY_BYTES) {
    return faults.add(pointer, `must not be longer than ${LONGEST_KEY_BYTES} bytes of UTF-8`);
  }
  return checkText(text, LONGEST_KEY_BYTES, pointer, faults);
}

/** RFC 3339 → the same moment in UTC; PostgreSQL keeps microseconds, so a finer fraction is cut there. */
export function checkTime(text: string, pointer: string, faults: Faults): string | undefined {
  const match = TIME.exec(text);
  const at = match ? Date.parse(text.toUpperCase()) : Number.NaN;
  if (!match || Number.isNaN(at) || !isCalendarDay(match)) {
    return faults.add(pointer, 'must be a time as in RFC 3339, such as 2026-01-31T12:00:00Z');
  }
  const utc = new Date(at).toISOString();
  // An offset can carry a year that looks fine into one that PostgreSQL does not write so.
  if (!/^(?!0000)\d{4}-/.test(utc)) return faults.add(pointer, 'is out of range');
  return `${utc.slice(0, 19)}${(match[4] ?? '').slice(0, 7)}Z`;
}

/** Date.parse takes 31 February for 3 March. */
function isCalendarDay([, year, month, day]: RegExpExecArray): boolean {
  const date = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day)));
  if (Number(year) < 100) date.setUTCFullYear(Number(year));
  return date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day);
}

export function checkHeader(
  name: string,
  value: string,
  pointer: string,
  faults: Faults,
): string | undefined {
  if (name.length > LONGEST_HEADER_NAME || !HEADER_NAME.test(name)) {
    return faults.add(pointer, `a header's name must be 1 to ${LONGEST_HEADER_NAME} of A-Z a-z 0-9 _ . -`);
  }
  if (value.length > LONGEST_HEADER_VALUE) {
    return faults.add(pointer, `must not be longer than ${LONGEST_HEADER_VALUE} characters`);
  }
  if (CONTROL.test(value)) return faults.add(pointer, 'must not hold control characters');
  return value;
}

export function checkHeaderCount(count: number, pointer: string, faults: Faults): boolean {
  if (count > MOST_HEADERS) faults.add(pointer, `must not have more than ${MOST_HEADERS} members`);
  return count <= MOST_HEADERS;
}

/** The text of a string member; a fault for any other kind. */
export function stringOf(
  text: string,
  slice: JsonSlice,
  pointer: string,
  faults: Faults,
): string | undefined {
  if (slice.kind !== 'string') return faults.add(pointer, 'must be a string');
  return unquoted(text, slice);
}

export function unquoted(text: string, slice: JsonSlice): string {
  const inner = text.slice(slice.start + 1, slice.end - 1);
  return inner.includes('\\') ? JSON.parse(text.slice(slice.start, slice.end)) : inner;
}
