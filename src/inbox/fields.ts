import { decodeUtf8, type JsonSlice } from '../http/json/exact-json.ts';
import type { FieldError } from '../http/problems.ts';
import { TIME_RULE, utcOf } from '../http/time.ts';

export const MAX_TYPE = 200;
export const MAX_ID = 200;
export const MAX_KEY_BYTES = 256;
export const MAX_BATCH = 1_000;
export const MAX_HEADERS = 50;
const MAX_HEADER_NAME = 64;
const MAX_HEADER_VALUE = 2_048;
/** All names and values together: every list of messages contains them. */
const MAX_HEADERS_BYTES = 16_384;
/** More than any valid message has, also a CloudEvent with its headers as attributes; each member that is read takes memory. */
export const MAX_MEMBERS = 100;

const CONTROL = /[\u0000-\u001f\u007f]/;
const HEADER_NAME = /^(?!__proto__$)[A-Za-z0-9_.-]+$/;

/** Max faults reported for one message: a body of 100,000 unknown fields does not get a response with as many faults. */
export const MAX_FAULTS = 20;

/** The checks are written by hand: on this path a validation library halves the rate of the whole service. */
export class Faults {
  readonly list: FieldError[] = [];

  add(pointer: string, detail: string): undefined {
    this.list.push({ pointer, detail });
    return undefined;
  }
}

/** Node decodes headers as Latin-1. Bytes beyond ASCII must be UTF-8; undefined: they are not. */
export function headerText(value: string): string | undefined {
  return /[\u0080-\u00ff]/.test(value) ? decodeUtf8(Buffer.from(value, 'latin1')) : value;
}

/** A non-empty text of limited length, without control characters. */
export function checkText(
  text: string,
  maxLength: number,
  pointer: string,
  faults: Faults,
): string | undefined {
  if (text.length === 0) return faults.add(pointer, 'must not be empty');
  if (text.length > maxLength) return faults.add(pointer, `must not be longer than ${maxLength} characters`);
  if (CONTROL.test(text)) return faults.add(pointer, 'must not contain control characters');
  return text;
}

/** The scheme and the namespace of a URN are case-insensitive. */
const RESERVED = /^urn:sluice:/i;

/** A type or a source. Only the service itself may use its own: people trust its alerts, and ids are unique per source. */
export function checkName(
  text: string,
  maxLength: number,
  pointer: string,
  faults: Faults,
): string | undefined {
  if (RESERVED.test(text))
    return faults.add(pointer, 'must not begin with urn:sluice: (reserved for messages of the service)');
  return checkText(text, maxLength, pointer, faults);
}

export function checkKey(text: string, pointer: string, faults: Faults): string | undefined {
  if (text.length * 3 > MAX_KEY_BYTES && Buffer.byteLength(text) > MAX_KEY_BYTES) {
    return faults.add(pointer, `must not be longer than ${MAX_KEY_BYTES} bytes of UTF-8`);
  }
  return checkText(text, MAX_KEY_BYTES, pointer, faults);
}

/** Returns the time in UTC. */
export function checkTime(text: string, pointer: string, faults: Faults): string | undefined {
  return utcOf(text) ?? faults.add(pointer, TIME_RULE);
}

export function checkHeader(
  name: string,
  value: string,
  pointer: string,
  faults: Faults,
): string | undefined {
  if (name.length > MAX_HEADER_NAME || !HEADER_NAME.test(name)) {
    return faults.add(pointer, `a header's name must be 1 to ${MAX_HEADER_NAME} of A-Z a-z 0-9 _ . -`);
  }
  if (value.length > MAX_HEADER_VALUE) {
    return faults.add(pointer, `must not be longer than ${MAX_HEADER_VALUE} characters`);
  }
  if (CONTROL.test(value)) return faults.add(pointer, 'must not contain control characters');
  return value;
}

export function checkHeaderCount(count: number, pointer: string, faults: Faults): boolean {
  if (count > MAX_HEADERS) faults.add(pointer, `must not have more than ${MAX_HEADERS} members`);
  return count <= MAX_HEADERS;
}

/** Whether all headers together are small enough. */
export function checkHeadersSize(
  headers: Readonly<Record<string, string>>,
  pointer: string,
  faults: Faults,
): boolean {
  let bytes = 0;
  for (const [name, value] of Object.entries(headers)) bytes += name.length + Buffer.byteLength(value);
  if (bytes <= MAX_HEADERS_BYTES) return true;
  faults.add(pointer, `must not have more than ${MAX_HEADERS_BYTES} bytes of names and values`);
  return false;
}

/** The text of a string member; adds a fault for any other kind. */
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
