import { comparePlaces, type HistoryMessage, type Place } from './history-message.ts';

/** Messages of a source, in order, and up to which place they are all there are; undefined: to the end. */
export interface Stretch {
  readonly messages: readonly HistoryMessage[];
  readonly completeTo: Place | undefined;
}

/** A position in a decoded block. */
export class BlockCursor {
  private index: number;

  constructor(
    readonly messages: readonly HistoryMessage[],
    after: Place,
    private readonly isWanted: (message: HistoryMessage) => boolean,
  ) {
    this.index = firstBehind(messages, after);
    this.skipUnwanted();
  }

  get head(): HistoryMessage | undefined {
    return this.messages[this.index];
  }

  advance(): void {
    this.index += 1;
    this.skipUnwanted();
  }

  /** How many messages, unwanted ones included, are behind a place and up to another; undefined: to the end. */
  countBetween(after: Place, end: Place | undefined): number {
    return (end ? firstBehind(this.messages, end) : this.messages.length) - firstBehind(this.messages, after);
  }

  private skipUnwanted(): void {
    while (this.head && !this.isWanted(this.head)) this.index += 1;
  }
}

function firstBehind(messages: readonly HistoryMessage[], place: Place): number {
  let [low, high] = [0, messages.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (comparePlaces(messages[middle]!, place) > 0) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The cursor whose next message comes first. */
export function firstOf(cursors: Iterable<BlockCursor>): BlockCursor | undefined {
  let first: BlockCursor | undefined;
  for (const cursor of cursors) {
    if (cursor.head && (!first || comparePlaces(cursor.head, first.head!) < 0)) first = cursor;
  }
  return first;
}

/** Merges two stretches as far as both are complete. A message that was moved meanwhile is in both. */
export function merged(a: Stretch, b: Stretch, limit: number): HistoryMessage[] {
  const ends = [a.completeTo, b.completeTo].filter((place) => place !== undefined);
  const byPosition = new Map([...a.messages, ...b.messages].map((message) => [message.position, message]));
  return [...byPosition.values()]
    .filter((message) => ends.every((end) => comparePlaces(message, end) <= 0))
    .sort(comparePlaces)
    .slice(0, limit);
}
