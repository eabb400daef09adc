import { groupBy } from '../database/group-by.ts';
import { splitByBytes } from '../database/split-by-bytes.ts';
import { encodeBlock } from './block-format.ts';
import { comparePlaces, type HistoryMessage, laneGroupOf } from './history-message.ts';

export const MAX_BLOCK_MESSAGES = 2_000;
/** Of payloads, before compression. A larger payload has a block of its own. */
export const MAX_BLOCK_BYTES = 2 * 1024 * 1024;

/** A block as it is written; its messages are in the order of application. */
export interface NewBlock {
  readonly laneGroup: number;
  readonly messages: readonly HistoryMessage[];
  readonly body: Buffer;
}

/** Messages of different lane groups, and of different kinds, are in different blocks: a block is removed as a whole. */
export function blocksOf(
  messages: readonly HistoryMessage[],
  kindOf: (message: HistoryMessage) => unknown,
): Promise<NewBlock[]> {
  const sorted = messages.toSorted(comparePlaces);
  const parts = groupBy(sorted, (message) => `${laneGroupOf(message.lane)}/${kindOf(message)}`).flatMap(
    inParts,
  );
  return Promise.all(
    parts.map(async (part) => ({
      laneGroup: laneGroupOf(part[0]!.lane),
      messages: part,
      body: await encodeBlock(part),
    })),
  );
}

function inParts(messages: readonly HistoryMessage[]): HistoryMessage[][] {
  const parts = splitByBytes(messages, MAX_BLOCK_BYTES, ({ payload }) => payload.length);
  return parts.flatMap((part) =>
    Array.from({ length: Math.ceil(part.length / MAX_BLOCK_MESSAGES) }, (_, index) =>
      part.slice(index * MAX_BLOCK_MESSAGES, (index + 1) * MAX_BLOCK_MESSAGES),
    ),
  );
}

/** The columns of a block, besides its id, in the order of INSERT_BLOCK. */
export function columnsOf({ laneGroup, messages, body }: NewBlock): unknown[] {
  const positions = messages.map(({ position }) => position);
  const received = messages.map(({ receivedMs }) => receivedMs);
  const [first, last] = [messages[0]!, messages.at(-1)!];
  return [
    laneGroup,
    ...[first.applied, first.position, last.applied, last.position],
    ...[Math.min(...positions), Math.max(...positions)],
    [...new Set(messages.map(({ type }) => type))],
    messages.length,
    messages.reduce((sum, { payload }) => sum + payload.length, 0),
    ...[new Date(Math.min(...received)), new Date(Math.max(...received))],
    body,
  ];
}
