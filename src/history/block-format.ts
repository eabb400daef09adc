import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { HistoryMessage } from './history-message.ts';

const compress = promisify(gzip);
const decompress = promisify(gunzip);

const VERSION = 1;
const LEVEL = 6;

/**
 * The first line of a block: one array per field, so that similar values are next to each other and compress well. Ascending
 * numbers are stored as differences, repeated texts as indexes into a list. All payloads follow, one after the other:
 * `lengths` tells them apart, and their text stays as it was posted.
 */
interface Columns {
  readonly version: number;
  readonly names: readonly string[];
  readonly type: readonly number[];
  readonly source: readonly number[];
  readonly id: readonly string[];
  /** 0: the same as the id. */
  readonly key: readonly (string | 0)[];
  readonly lane: readonly number[];
  readonly applied: readonly number[];
  readonly position: readonly number[];
  readonly received: readonly number[];
  readonly occurred: readonly (string | null)[];
  readonly headers: readonly HistoryMessage['headers'][];
  readonly lengths: readonly number[];
}

/** Keeps the order of the messages. */
export function encodeBlock(messages: readonly HistoryMessage[]): Promise<Buffer> {
  const names = new Map<string, number>();
  const indexOf = (name: string) => {
    const known = names.get(name) ?? names.size;
    names.set(name, known);
    return known;
  };
  const type = messages.map((message) => indexOf(message.type));
  const source = messages.map((message) => indexOf(message.source));
  const columns: Columns = {
    version: VERSION,
    names: [...names.keys()],
    type,
    source,
    id: messages.map(({ id }) => id),
    key: messages.map(({ key, id }) => (key === id ? 0 : key)),
    lane: messages.map(({ lane }) => lane),
    applied: differences(messages.map(({ applied }) => applied)),
    position: differences(messages.map(({ position }) => position)),
    received: differences(messages.map(({ receivedMs }) => receivedMs)),
    occurred: messages.map(({ occurredAt }) => occurredAt),
    headers: messages.map(({ headers }) => headers),
    lengths: messages.map(({ payload }) => payload.length),
  };
  const payloads = messages.map(({ payload }) => payload).join('');
  return compress(`${JSON.stringify(columns)}\n${payloads}`, { level: LEVEL });
}

export async function decodeBlock(body: Buffer): Promise<HistoryMessage[]> {
  const text = (await decompress(body)).toString();
  const end = text.indexOf('\n');
  const columns: Columns = JSON.parse(text.slice(0, end));
  if (columns.version !== VERSION)
    throw new Error(`a block of history has the format ${columns.version}; this version reads ${VERSION}`);
  const applied = sums(columns.applied);
  const position = sums(columns.position);
  const received = sums(columns.received);
  let from = end + 1;
  return columns.id.map((id, index) => {
    const payload = text.slice(from, from + columns.lengths[index]!);
    from += payload.length;
    return {
      id,
      source: columns.names[columns.source[index]!]!,
      type: columns.names[columns.type[index]!]!,
      key: columns.key[index] || id,
      lane: columns.lane[index]!,
      applied: applied[index]!,
      position: position[index]!,
      receivedMs: received[index]!,
      occurredAt: columns.occurred[index]!,
      headers: columns.headers[index]!,
      payload,
    };
  });
}

function differences(values: readonly number[]): number[] {
  return values.map((value, index) => value - (values[index - 1] ?? 0));
}

function sums(values: readonly number[]): number[] {
  let sum = 0;
  return values.map((value) => (sum += value));
}
