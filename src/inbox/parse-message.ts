import { randomUUID } from 'node:crypto';
import { ExactJson, type JsonSlice } from '../http/json/exact-json.ts';
import { pointerTo } from '../http/pointer.ts';
import {
  checkHeader,
  checkHeadersSize,
  checkKey,
  checkName,
  checkText,
  checkTime,
  Faults,
  MAX_FAULTS,
  MAX_HEADERS,
  MAX_ID,
  MAX_TYPE,
  stringOf,
  unquoted,
} from './fields.ts';
import { type NewMessage, newMessage, type ProducerSequence } from './new-message.ts';

/** What a message gets from the request it came with. */
export interface Envelope {
  readonly source: string;
  /** Used as the id if the message has none. */
  readonly idempotencyKey: string | undefined;
  readonly traceparent: string | undefined;
  readonly producer: ProducerSequence | undefined;
  /** The type of a message that has none: the topic that it was posted to. */
  readonly defaultType?: string | undefined;
}

/** Fields while they are read; `undefined` where absent or invalid (then there is a fault). */
export interface Draft {
  id?: string | undefined;
  type?: string | undefined;
  key?: string | undefined;
  payload?: string | undefined;
  headers?: Record<string, string> | undefined;
  occurredAt?: string | undefined;
  dueAt?: string | undefined;
  expiresAt?: string | undefined;
}

/** One message of the native format, from the slices of a scanned text. */
export function parseMessage(
  text: string,
  slice: JsonSlice,
  envelope: Envelope,
  pointer: string,
  faults: Faults,
): NewMessage | undefined {
  if (slice.kind !== 'object') return faults.add(pointer, 'must be an object');
  const draft: Draft = {};
  const before = faults.list.length;
  for (const member of slice.children ?? []) {
    if (faults.list.length - before >= MAX_FAULTS) return undefined;
    readField(draft, text, member, pointer, faults);
  }
  if (envelope.defaultType === undefined) requirePresence(slice, 'type', pointer, faults);
  requirePresence(slice, 'payload', pointer, faults);
  if (draft.dueAt && draft.expiresAt && Date.parse(draft.expiresAt) <= Date.parse(draft.dueAt)) {
    faults.add(pointerTo(pointer, 'expiresAt'), 'must be later than dueAt');
  }
  return faults.list.length > before ? undefined : completed(draft, envelope);
}

function readField(draft: Draft, text: string, member: JsonSlice, parent: string, faults: Faults): void {
  const pointer = `${parent}/${member.key}`;
  switch (member.key) {
    case 'payload':
      draft.payload = text.slice(member.start, member.end);
      return;
    case 'headers':
      draft.headers = readHeaders(text, member, pointer, faults);
      return;
    case 'type':
      draft.type = checked(checkTypeText, text, member, pointer, faults);
      return;
    case 'id':
      draft.id = checked(checkIdText, text, member, pointer, faults);
      return;
    case 'key':
      draft.key = checked(checkKey, text, member, pointer, faults);
      return;
    case 'occurredAt':
    case 'dueAt':
    case 'expiresAt':
      draft[member.key] = checked(checkTime, text, member, pointer, faults);
      return;
    default:
      faults.add(pointerTo(parent, member.key), 'is not a known field');
  }
}

/** Adds what comes from the request around the message. */
export function completed(draft: Draft, envelope: Envelope): NewMessage {
  return newMessage({
    id: draft.id ?? envelope.idempotencyKey ?? newId(),
    source: envelope.source,
    type: draft.type ?? envelope.defaultType!,
    key: draft.key,
    payload: draft.payload!,
    headers: withTrace(draft.headers, envelope.traceparent),
    occurredAt: draft.occurredAt,
    dueAt: draft.dueAt,
    expiresAt: draft.expiresAt,
    producer: envelope.producer,
  });
}

function withTrace(headers: Record<string, string> | undefined, traceparent: string | undefined) {
  if (traceparent === undefined || headers?.traceparent !== undefined) return headers;
  return { ...headers, traceparent };
}

function requirePresence(slice: JsonSlice, name: string, pointer: string, faults: Faults): void {
  const there = slice.children?.some((member) => member.key === name);
  if (!there) faults.add(pointerTo(pointer, name), 'is required');
}

function checked(
  check: (value: string, pointer: string, faults: Faults) => string | undefined,
  text: string,
  slice: JsonSlice,
  pointer: string,
  faults: Faults,
): string | undefined {
  const value = stringOf(text, slice, pointer, faults);
  return value === undefined ? undefined : check(value, pointer, faults);
}

function checkTypeText(value: string, pointer: string, faults: Faults): string | undefined {
  return checkName(value, MAX_TYPE, pointer, faults);
}

function checkIdText(value: string, pointer: string, faults: Faults): string | undefined {
  return checkText(value, MAX_ID, pointer, faults);
}

function readHeaders(
  text: string,
  slice: JsonSlice,
  pointer: string,
  faults: Faults,
): Record<string, string> | undefined {
  if (slice.kind !== 'object') return faults.add(pointer, 'must be an object of strings');
  const inside = ExactJson.scan(text, { start: slice.start, end: slice.end, maxChildren: [MAX_HEADERS] });
  if (!inside.ok) return faults.add(pointer, inside.fault.detail);
  const members = inside.value.children!;
  const headers: Record<string, string> = {};
  for (const member of members) {
    const at = pointerTo(pointer, member.key);
    if (member.kind !== 'string') faults.add(at, 'must be a string');
    else if (checkHeader(member.key, unquoted(text, member), at, faults) !== undefined) {
      headers[member.key] = unquoted(text, member);
    }
  }
  if (!checkHeadersSize(headers, pointer, faults)) return undefined;
  return members.length ? headers : undefined;
}

/** UUIDv7: grows with time, so that its index is written at one end. Node caches random UUIDs, so they are cheap. */
function newId(): string {
  const time = Date.now().toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}
