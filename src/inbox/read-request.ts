import type { IncomingHttpHeaders } from 'node:http';
import { decodeUtf8, ExactJson, type JsonFault, type JsonSlice } from '../http/json/exact-json.ts';
import { pointerTo } from '../http/pointer.ts';
import { type FieldError, Problem } from '../http/problems.ts';
import { Faults, MAX_BATCH, MAX_FAULTS, MAX_MEMBERS } from './fields.ts';
import type { NewMessage } from './new-message.ts';
import { parseBinaryCloudEvent, parseStructuredCloudEvent } from './parse-cloud-event.ts';
import { type Envelope, parseMessage } from './parse-message.ts';
import { readEnvelope } from './read-envelope.ts';

/** How deep a payload may be nested, not counting the levels of the document around it. */
const MAX_PAYLOAD = 64;
/** Used to list the items of a batch although one of them is nested too deep. */
const MAX_TO_LIST = 1_000;
const NO_BODY = Buffer.alloc(0);

/** The content of a POST: one message, or a batch that is stored all or nothing. */
export interface PostedMessages {
  readonly messages: readonly NewMessage[];
  readonly batch: boolean;
  /** Where the list of a batch is in the body. */
  readonly pointer: string;
  /** How much memory it takes: its payloads are slices of the whole body. */
  readonly bytes: number;
}

export interface PostRequest {
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
  /** The name of the API key. */
  readonly caller: string;
  /** Max size of one message. */
  readonly maxBytes: number;
  /** The type of messages without one. */
  readonly defaultType: string | undefined;
}

/** POST /v1/messages: native JSON, or CloudEvents structured, batch or binary. */
export function readPost({ headers, body, caller, maxBytes, defaultType }: PostRequest): PostedMessages {
  const mediaType = mediaTypeOf(headers);
  const batch = mediaType === 'application/cloudevents-batch+json';
  const faults = new Faults();
  const envelope = { ...readEnvelope(headers, caller, batch ? 'batch' : 'one', faults), defaultType };
  const bytes = bytesOf(body);
  if (mediaType === 'application/cloudevents+json')
    return one(readOne(textOf(bytes), envelope, parseStructuredCloudEvent, faults), bytes, faults);
  if (batch) return many({ text: textOf(bytes), form: CLOUD_EVENTS, maxBytes, envelope, faults });
  if (headers['ce-specversion'] !== undefined)
    return one(readBinary(headers, bytes, envelope, faults), bytes, faults);
  if (mediaType === 'application/json')
    return one(readOne(textOf(bytes), envelope, parseMessage, faults), bytes, faults);
  throw new Problem(
    'unsupported-media-type',
    'The Content-Type must be application/json or that of a CloudEvent.',
  );
}

/** POST /v1/messages/batch: `{messages: […]}`. */
export function readBatch({ headers, body, caller, maxBytes, defaultType }: PostRequest): PostedMessages {
  if (mediaTypeOf(headers) !== 'application/json') {
    throw new Problem('unsupported-media-type', 'The Content-Type must be application/json.');
  }
  const faults = new Faults();
  const envelope = { ...readEnvelope(headers, caller, 'batch', faults), defaultType };
  return many({ text: textOf(bytesOf(body)), form: NATIVE_BATCH, maxBytes, envelope, faults });
}

type Parse = (
  text: string,
  slice: JsonSlice,
  envelope: Envelope,
  pointer: string,
  faults: Faults,
) => NewMessage | undefined;

function readOne(text: string, envelope: Envelope, parse: Parse, faults: Faults): NewMessage | undefined {
  const scan = ExactJson.scan(text, { maxDepth: MAX_PAYLOAD + 1, maxChildren: [MAX_MEMBERS] });
  if (!scan.ok) throw refused(scan.fault);
  return parse(text, scan.value, envelope, '', faults);
}

function readBinary(headers: IncomingHttpHeaders, body: Buffer, envelope: Envelope, faults: Faults) {
  const message = parseBinaryCloudEvent(headers, body, envelope, faults);
  if (!message) return undefined;
  const scan = ExactJson.scan(message.payload, { outline: 0, maxDepth: MAX_PAYLOAD });
  if (!scan.ok) throw refused(scan.fault);
  return { ...message, payload: message.payload.slice(scan.value.start, scan.value.end) };
}

function one(message: NewMessage | undefined, body: Buffer, faults: Faults): PostedMessages {
  if (faults.list.length || !message) throw invalid(faults.list);
  return { messages: [message], batch: false, pointer: '', bytes: body.length };
}

/** Where a batch has its items, and how they are parsed. */
interface BatchForm {
  readonly pointer: string;
  /** Levels of the document around an item. */
  readonly levels: number;
  /** By level, down to the members of an item. */
  readonly maxChildren: readonly number[];
  readonly parse: Parse;
}

const NATIVE_BATCH: BatchForm = {
  pointer: '/messages',
  levels: 2,
  maxChildren: [MAX_MEMBERS, MAX_BATCH, MAX_MEMBERS],
  parse: parseMessage,
};
const CLOUD_EVENTS: BatchForm = {
  pointer: '',
  levels: 1,
  maxChildren: [MAX_BATCH, MAX_MEMBERS],
  parse: parseStructuredCloudEvent,
};

/** A batch while it is read. */
interface BatchText {
  readonly text: string;
  readonly form: BatchForm;
  /** Max size of an item, the same as for a single message. */
  readonly maxBytes: number;
  readonly envelope: Envelope;
  readonly faults: Faults;
}

function many(batch: BatchText): PostedMessages {
  const { text, form, faults } = batch;
  const { pointer, levels, maxChildren } = form;
  const scan = ExactJson.scan(text, {
    outline: levels + 1,
    maxDepth: MAX_PAYLOAD + levels + 1,
    maxChildren,
  });
  if (!scan.ok) throw refusedBatch(batch, scan.fault);
  const messages = itemsOf(scan.value, form, faults).map((item, index) => parseItem(batch, item, index));
  if (faults.list.length) throw invalid(faults.list);
  return { messages: messages as NewMessage[], batch: true, pointer, bytes: text.length };
}

function parseItem(batch: BatchText, item: JsonSlice, index: number): NewMessage | undefined {
  const { text, form, maxBytes, envelope, faults } = batch;
  const pointer = `${form.pointer}/${index}`;
  const fits =
    (item.end - item.start) * 3 <= maxBytes ||
    Buffer.byteLength(text.slice(item.start, item.end)) <= maxBytes;
  if (!fits) return faults.add(pointer, `must not be larger than ${maxBytes} bytes`);
  return form.parse(text, item, nth(envelope, index), pointer, faults);
}

function itemsOf(document: JsonSlice, { pointer, levels }: BatchForm, faults: Faults): readonly JsonSlice[] {
  const list = levels === 1 ? document : listIn(document, faults);
  if (list?.kind !== 'array') throw invalid([...faults.list, { pointer, detail: 'must be an array' }]);
  const items = list.children ?? [];
  if (items.length === 0) throw invalid([...faults.list, { pointer, detail: 'must not be empty' }]);
  return items;
}

function listIn(document: JsonSlice, faults: Faults): JsonSlice | undefined {
  if (document.kind !== 'object') throw invalid([{ pointer: '', detail: 'must be an object' }]);
  const members = document.children ?? [];
  const unknown = members.filter(({ key }) => key !== 'messages').slice(0, MAX_FAULTS);
  for (const { key } of unknown) faults.add(pointerTo('', key), 'is not a known field');
  const list = members.find(({ key }) => key === 'messages');
  if (!list) throw invalid([{ pointer: '/messages', detail: 'is required' }, ...faults.list]);
  return list;
}

/** The scan failed because of one item: every item is scanned alone, so that all faults are reported. */
function refusedBatch(batch: BatchText, fault: JsonFault): Problem {
  const { text, form, faults } = batch;
  if (fault.code === 'malformed') return refused(fault);
  if (fault.code === 'too-many') return invalid([...faults.list, fault]);
  const outline = ExactJson.scan(text, {
    outline: form.levels,
    maxDepth: MAX_TO_LIST,
    maxChildren: form.maxChildren,
    grammarOnly: true,
  });
  if (!outline.ok) return refused(outline.fault.code === 'too-many' ? outline.fault : fault);
  itemsOf(outline.value, form, faults).forEach((item, index) => {
    const pointer = `${form.pointer}/${index}`;
    const own = ExactJson.scan(text, {
      start: item.start,
      end: item.end,
      pointer,
      maxDepth: MAX_PAYLOAD + 1,
      maxChildren: [MAX_MEMBERS],
    });
    if (own.ok) parseItem(batch, own.value, index);
    else faults.add(own.fault.pointer, own.fault.detail);
  });
  const reported = faults.list.some(({ pointer }) => pointer === fault.pointer);
  return reported ? invalid(faults.list) : invalid([fault, ...faults.list]);
}

/** Each message gets an id and a sequence number of its own, so that a repeated batch is recognised as duplicates. */
function nth(envelope: Envelope, index: number): Envelope {
  const { idempotencyKey, producer } = envelope;
  return {
    ...envelope,
    idempotencyKey: idempotencyKey === undefined ? undefined : `${idempotencyKey}/${index}`,
    producer: producer && { ...producer, sequence: producer.sequence + index },
  };
}

function mediaTypeOf(headers: IncomingHttpHeaders): string {
  const type = headers['content-type'] ?? '';
  return type === 'application/json' ? type : type.split(';')[0]!.trim().toLowerCase();
}

function bytesOf(body: unknown): Buffer {
  return Buffer.isBuffer(body) ? body : NO_BODY;
}

function textOf(body: Buffer): string {
  const text = decodeUtf8(body);
  if (text === undefined) throw new Problem('malformed-json', 'The body is not UTF-8.');
  return text;
}

function refused(fault: JsonFault): Problem {
  if (fault.code === 'malformed') return new Problem('malformed-json', fault.detail);
  return invalid([fault]);
}

function invalid(faults: readonly FieldError[]): Problem {
  const errors = faults.map(({ pointer, detail }) => ({ pointer, detail }));
  const [first] = errors;
  const rest = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
  return new Problem('invalid', `${first?.pointer || 'The body'} ${first?.detail}${rest}`, { errors });
}
