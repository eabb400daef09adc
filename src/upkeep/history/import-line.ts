import { decodeUtf8, ExactJson, type JsonSlice } from '../../http/json/exact-json.ts';
import { checkText, checkTime, Faults, MAX_MEMBERS, MAX_TYPE, stringOf } from '../../inbox/fields.ts';
import type { NewMessage } from '../../inbox/new-message.ts';
import { parseMessage } from '../../inbox/parse-message.ts';

/** How deep a payload may be nested, and the line around it. */
const MAX_DEPTH = 65;
const MAX_SOURCE = 2_048;
/** What a line has beyond the fields of a post. Its place in the history it comes from has no meaning here. */
const FIELDS_OF_HISTORY = ['type', 'source', 'receivedAt', 'payloadText', 'lane', 'position', 'applied'];

export interface ImportedLine {
  readonly message: NewMessage;
  readonly receivedAt: string | undefined;
}

export interface LineRules {
  /** Of a line without one. */
  readonly defaultSource: string;
  readonly maxBytes: number;
}

/** One line of an import, with the checks of a post; undefined: it has faults. */
export function parseLine(bytes: Buffer, rules: LineRules, faults: Faults): ImportedLine | undefined {
  if (bytes.length > rules.maxBytes) return faults.add('', `must not be larger than ${rules.maxBytes} bytes`);
  const line = decodeUtf8(bytes);
  if (line === undefined) return faults.add('', 'is not UTF-8');
  const document = scan(line, faults);
  if (!document) return undefined;
  const payloadText = member(document, 'payloadText');
  return payloadText
    ? withPayloadText(line, document, payloadText, rules, faults)
    : read(line, document, rules, faults);
}

function scan(text: string, faults: Faults): JsonSlice | undefined {
  const scanned = ExactJson.scan(text, { maxDepth: MAX_DEPTH, maxChildren: [MAX_MEMBERS] });
  if (!scanned.ok) return faults.add(scanned.fault.pointer, scanned.fault.detail);
  return scanned.value.kind === 'object' ? scanned.value : faults.add('', 'must be an object');
}

/** A payload with line breaks is exported as a string, so that a message is one line. */
function withPayloadText(
  line: string,
  document: JsonSlice,
  payloadText: JsonSlice,
  rules: LineRules,
  faults: Faults,
): ImportedLine | undefined {
  if (member(document, 'payload')) return faults.add('/payloadText', 'must not be given with payload');
  const payload = stringOf(line, payloadText, '/payloadText', faults);
  if (payload === undefined) return undefined;
  const alone = ExactJson.scan(payload, { outline: 0, maxDepth: MAX_DEPTH - 1 });
  if (!alone.ok) return faults.add('/payloadText', alone.fault.detail);
  const rest = document.children!.filter(({ key }) => key !== 'payloadText');
  const members = rest.map(({ key, start, end }) => `${JSON.stringify(key)}:${line.slice(start, end)}`);
  const text = `{${[...members, `"payload":${payload}`].join(',')}}`;
  const rewritten = scan(text, faults);
  return rewritten && read(text, rewritten, rules, faults);
}

function read(text: string, document: JsonSlice, rules: LineRules, faults: Faults): ImportedLine | undefined {
  const textOf = (name: string) => {
    const slice = member(document, name);
    return slice && stringOf(text, slice, `/${name}`, faults);
  };
  const type = textOf('type');
  if (!member(document, 'type')) faults.add('/type', 'is required');
  if (!member(document, 'id')) faults.add('/id', 'is required');
  for (const name of ['dueAt', 'expiresAt'])
    if (member(document, name)) faults.add(`/${name}`, 'is not imported');
  if (type !== undefined) checkText(type, MAX_TYPE, '/type', faults);
  const source = textOf('source') ?? rules.defaultSource;
  checkText(source, MAX_SOURCE, '/source', faults);
  const receivedText = textOf('receivedAt');
  const receivedAt = receivedText === undefined ? undefined : checkTime(receivedText, '/receivedAt', faults);
  const posted = {
    ...document,
    children: document.children!.filter(({ key }) => !FIELDS_OF_HISTORY.includes(key!)),
  };
  const envelope = { source, idempotencyKey: undefined, traceparent: undefined, producer: undefined };
  const message = parseMessage(text, posted, { ...envelope, defaultType: type ?? '' }, '', faults);
  return message && faults.list.length === 0 ? { message, receivedAt } : undefined;
}

function member({ children }: JsonSlice, name: string): JsonSlice | undefined {
  return children?.find(({ key }) => key === name);
}
