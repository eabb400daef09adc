import { splitByBytes } from '../database/split-by-bytes.ts';
import { BlockCursor, firstOf, merged, type Stretch } from './block-cursor.ts';
import type { BlockStart } from './block-store.ts';
import { comparePlaces, type HistoryMessage, type Place } from './history-message.ts';

/** Of payloads, per call; a larger payload is returned alone. */
const MAX_BYTES = 8 * 1024 * 1024;
const MAX_BLOCKS = 64;

export interface Sources {
  readonly group: number;
  readonly isWanted: (message: HistoryMessage) => boolean;
  readonly blocksAfter: (place: Place, max: number) => Promise<BlockStart[]>;
  readonly loadBlock: (id: number) => Promise<HistoryMessage[] | undefined>;
  readonly inboxAfter: (place: Place, max: number) => Promise<(Place & { readonly bytes: number })[]>;
  readonly loadInbox: (positions: readonly number[]) => Promise<HistoryMessage[]>;
}

/** Reads one lane group, in the order of application. Only blocks that overlap are in memory together. */
export class GroupReader {
  /** Blocks with further messages: the next call will need them. */
  private cached: ReadonlyMap<number, BlockCursor> = new Map();

  constructor(private readonly sources: Sources) {}

  /** The next messages behind a place: up to `limit` or about 8 MiB. Empty: there are no more, for now. */
  async read(after: Place, limit: number): Promise<HistoryMessage[]> {
    // In this order: a message that is moved meanwhile is found twice, never missed.
    const inbox = await this.fromInbox(after, limit);
    return merged(inbox, await this.fromBlocks(after, limit), limit);
  }

  private async fromInbox(after: Place, limit: number): Promise<Stretch> {
    const places = await this.sources.inboxAfter(after, limit);
    const [taken = []] = splitByBytes(places, MAX_BYTES, ({ bytes }) => bytes);
    const messages = taken.length ? await this.sources.loadInbox(taken.map(({ position }) => position)) : [];
    const isCut = taken.length < places.length || places.length === limit;
    return { messages, completeTo: isCut ? taken.at(-1) : undefined };
  }

  private async fromBlocks(after: Place, limit: number): Promise<Stretch> {
    let maxBlocks = MAX_BLOCKS;
    for (let from = after; ; ) {
      const stretch = await this.merge(from, limit, maxBlocks);
      if (!stretch) continue;
      if (stretch.messages.length > 0 || !stretch.completeTo) return stretch;
      // None of the blocks had a wanted message.
      if (comparePlaces(stretch.completeTo, from) > 0) from = stretch.completeTo;
      else maxBlocks *= 4;
    }
  }

  /** Opens a block when the merge gets to where it begins. Undefined: a block was replaced or removed since it was listed. */
  private async merge(after: Place, limit: number, maxBlocks: number): Promise<Stretch | undefined> {
    const starts = await this.sources.blocksAfter(after, maxBlocks);
    // Blocks that were not listed may begin anywhere from there on.
    const unlisted = starts.length === maxBlocks ? starts.at(-1)!.first : undefined;
    const messages: HistoryMessage[] = [];
    const open = new Map<number, BlockCursor>();
    let bytes = 0;
    for (let next = 0; ; ) {
      const first = firstOf(open.values());
      const start = starts[next];
      if (start && !(first && comparePlaces(first.head!, start.first) < 0)) {
        const cursor = await this.cursorOf(start.id, after);
        if (!cursor) return undefined;
        if (cursor.head) open.set(start.id, cursor);
        next += 1;
        continue;
      }
      const isPast = !first || (unlisted && comparePlaces(first.head!, unlisted) >= 0);
      if (!isPast) bytes += first.head!.payload.length;
      const isFull = messages.length === limit || (bytes > MAX_BYTES && messages.length > 0);
      if (isPast || isFull) {
        this.cached = open;
        return { messages, completeTo: isPast ? unlisted && placeBefore(unlisted) : messages.at(-1) };
      }
      messages.push(first.head!);
      first.advance();
      for (const [id, cursor] of open) if (!cursor.head) open.delete(id);
    }
  }

  private async cursorOf(id: number, after: Place): Promise<BlockCursor | undefined> {
    const block = this.cached.get(id)?.messages ?? (await this.sources.loadBlock(id));
    return block && new BlockCursor(block, after, this.sources.isWanted);
  }
}

function placeBefore({ applied, position }: Place): Place {
  return { applied, position: position - 1 };
}
