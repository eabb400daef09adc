import { decodeUtf8, type JsonSlice } from '../http/json/exact-json.ts';
import { pointerTo } from '../http/pointer.ts';
import { Problem } from '../http/problems.ts';
import {
  checkHeader,
  checkHeaderCount,
  checkHeadersSize,
  checkKey,
  checkName,
  checkText,
  checkTime,
  type Faults,
  headerText,
  MAX_FAULTS,
  MAX_ID,
  MAX_TYPE,
  unquoted,
} from './fields.ts';
import type { NewMessage } from './new-message.ts';
import { completed, type Envelope } from './parse-message.ts';

const MAX_SOURCE = 512;

/** Strings by the standard; a number instead would identify another event than the same digits in quotes. */
const TEXTS = new Set([
  'specversion',
  'id',
  'source',
  'type',
  'subject',
  'time',
  'partitionkey',
  'expirytime',
  'datacontenttype',
  'dataschema',
]);

/** The name in CloudEvents 0.3 for how the payload encodes data that is not text. */
const ENCODING = 'datacontentencoding';
const BASE64 = 'base64';

const QUOTED = /^"(?:[^"\\]|\\.)*"$/;

/** The attributes of a CloudEvent as text, in any mode. */
type Attributes = Map<string, string>;

/** Structured mode: one JSON object. */
export function parseStructuredCloudEvent(
  text: string,
  slice: JsonSlice,
  envelope: Envelope,
  pointer: string,
  faults: Faults,
): NewMessage | undefined {
  if (slice.kind !== 'object') return faults.add(pointer, 'must be a CloudEvent (an object)');
  const attributes: Attributes = new Map();
  const before = faults.list.length;
  let data: string | undefined;
  for (const member of slice.children ?? []) {
    if (faults.list.length - before >= MAX_FAULTS) return undefined;
    const at = pointerTo(pointer, member.key);
    if (member.key !== 'data' && member.key !== 'data_base64') {
      readAttribute(attributes, text, member, at, faults);
      continue;
    }
    if (data !== undefined) faults.add(at, 'data and data_base64 must not both be present');
    data = text.slice(member.start, member.end);
    if (member.key === 'data_base64') {
      attributes.set(ENCODING, BASE64);
      checkBase64(text, member, at, faults);
    }
  }
  if (faults.list.length > before) return undefined;
  return toMessage(attributes, data ?? 'null', envelope, pointer, faults);
}

function readAttribute(
  attributes: Attributes,
  text: string,
  member: JsonSlice,
  pointer: string,
  faults: Faults,
): void {
  if (member.kind === 'string') attributes.set(member.key, unquoted(text, member));
  else if (member.kind === 'null') return;
  else if (TEXTS.has(member.key)) faults.add(pointer, 'must be a string');
  else if (member.kind === 'number' || member.kind === 'boolean')
    attributes.set(member.key, text.slice(member.start, member.end));
  else faults.add(pointer, 'must be a string, a number or a boolean');
}

function checkBase64(text: string, member: JsonSlice, pointer: string, faults: Faults): void {
  const value = member.kind === 'string' ? unquoted(text, member) : '?';
  if (value.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(value)) {
    faults.add(pointer, 'must be a string in base64');
  }
}

/** Binary mode: attributes in `ce-…` headers, the data is the body. */
export function parseBinaryCloudEvent(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  body: Buffer,
  envelope: Envelope,
  faults: Faults,
): NewMessage | undefined {
  const attributes: Attributes = new Map();
  for (const [name, value] of Object.entries(headers)) {
    if (!name.startsWith('ce-') || typeof value !== 'string') continue;
    const decoded = decodedHeader(value);
    if (decoded === undefined) faults.add(`/${name.slice(3)}`, 'is not UTF-8, percent-encoded or as it is');
    else attributes.set(name.slice(3), decoded);
  }
  const contentType = headers['content-type'] as string | undefined;
  if (contentType) {
    const text = headerText(contentType);
    if (text === undefined) faults.add('/datacontenttype', 'is not UTF-8');
    else attributes.set('datacontenttype', text);
  }
  const payload = binaryData(body, contentType, attributes);
  return toMessage(attributes, payload, envelope, '', faults);
}

/** JSON stays as it is; other text becomes a string; bytes that no JSON string can contain become base64, like `data_base64`. */
function binaryData(body: Buffer, contentType: string | undefined, attributes: Attributes): string {
  if (body.length === 0) return 'null';
  const text = decodeUtf8(body);
  if (contentType === undefined || /^application\/([\w.+-]+\+)?json\b/i.test(contentType)) {
    if (text === undefined) throw new Problem('malformed-json', 'The body is not UTF-8.');
    return text;
  }
  if (text !== undefined && !text.includes('\u0000')) return JSON.stringify(text);
  attributes.set(ENCODING, BASE64);
  return JSON.stringify(body.toString('base64'));
}

/** `type`→type, `source`+`id`→identity, `partitionkey` else `subject`→key, `time`→occurredAt, the rest→headers. */
function toMessage(
  attributes: Attributes,
  payload: string,
  envelope: Envelope,
  pointer: string,
  faults: Faults,
): NewMessage | undefined {
  const before = faults.list.length;
  const take = (name: string) => {
    const value = attributes.get(name);
    attributes.delete(name);
    return value;
  };
  if (take('specversion') !== '1.0') faults.add(`${pointer}/specversion`, 'must be "1.0"');
  const id = required(checkText, take('id'), MAX_ID, `${pointer}/id`, faults);
  const source = required(checkName, take('source'), MAX_SOURCE, `${pointer}/source`, faults);
  const type = required(checkName, take('type'), MAX_TYPE, `${pointer}/type`, faults);
  const time = take('time');
  const expiry = take('expirytime');
  const partitionKey = take('partitionkey');
  const key = partitionKey ?? attributes.get('subject');
  const draft = {
    id,
    type,
    payload,
    key:
      key === undefined
        ? undefined
        : checkKey(key, `${pointer}/${partitionKey === undefined ? 'subject' : 'partitionkey'}`, faults),
    occurredAt: time === undefined ? undefined : checkTime(time, `${pointer}/time`, faults),
    expiresAt: expiry === undefined ? undefined : checkTime(expiry, `${pointer}/expirytime`, faults),
    headers: extensions(attributes, pointer, faults),
  };
  return faults.list.length > before ? undefined : completed(draft, { ...envelope, source: source! });
}

function extensions(
  attributes: Attributes,
  pointer: string,
  faults: Faults,
): Record<string, string> | undefined {
  if (!checkHeaderCount(attributes.size, pointer, faults)) return undefined;
  for (const [name, value] of attributes) checkHeader(name, value, pointerTo(pointer, name), faults);
  const headers = Object.fromEntries(attributes);
  checkHeadersSize(headers, pointer, faults);
  return attributes.size ? headers : undefined;
}

function required(
  check: typeof checkText,
  value: string | undefined,
  maxLength: number,
  pointer: string,
  faults: Faults,
): string | undefined {
  return value === undefined ? faults.add(pointer, 'is required') : check(value, maxLength, pointer, faults);
}

/**
 * As the HTTP binding requires: quotes are removed first, then it is percent-decoded once. Some senders do not percent-encode
 * (the library for JavaScript is one): a `%` that starts no escape is kept, and so are bytes beyond ASCII.
 */
function decodedHeader(value: string): string | undefined {
  const text = headerText(QUOTED.test(value) ? value.slice(1, -1).replace(/\\(.)/g, '$1') : value);
  if (text === undefined || !text.includes('%')) return text;
  try {
    return decodeURIComponent(text.replace(/%(?![\da-f]{2})/gi, '%25'));
  } catch {
    return undefined;
  }
}
