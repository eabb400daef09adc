import { BlockCursor, firstOf, type Stretch } from './block-cursor.ts';
import type { BlockStart } from './block-store.ts';
import { comparePlaces, type HistoryMessage, type Place } from './history-message.ts';

/** Of payloads, per call; a larger payload is returned alone. */
export const MAX_STRETCH_BYTES = 8 * 1024 * 1024;
const MAX_BLOCKS = 64;

export interface BlockSources {
  readonly isWanted: (message: HistoryMessage) => boolean;
  readonly blocksAfter: (place: Place, max: number) => Promise<BlockStart[]>;
  readonly loadBlock: (id: number) => Promise<HistoryMessage[] | undefined>;
}

/** What blocks have behind a place. */
export interface BlockStretch extends Stretch {
  /** How many messages these blocks have up to a place within the stretch, unwanted ones included. Undefined: to the end. */
  readonly countTo: (end: Place | undefined) => number;
}

/** Reads the blocks of one lane group, in the order of application. Only blocks that overlap are in memory together. */
export class BlockReader {
  /** Blocks with further messages: the next call will need them. */
  private cached: ReadonlyMap<number, BlockCursor> = new Map();

  constructor(private readonly sources: BlockSources) {}

  /**
   * The next wanted messages behind a place: up to `limit` or about 8 MiB. There may be none although it is not the end, but
   * `completeTo` is always behind `after`.
   */
  async read(after: Place, limit: number): Promise<BlockStretch> {
    for (let maxBlocks = MAX_BLOCKS; ; ) {
      const stretch = await this.merge(after, limit, maxBlocks);
      if (!stretch) continue;
      const { completeTo } = stretch;
      if (!completeTo || comparePlaces(completeTo, after) > 0) return stretch;
      // More blocks than that begin at or before the place.
      maxBlocks *= 4;
    }
  }

  /** Opens a block when the merge gets to where it begins. Undefined: a block was replaced or removed since it was listed. */
  private async merge(after: Place, limit: number, maxBlocks: number): Promise<BlockStretch | undefined> {
    const starts = await this.sources.blocksAfter(after, maxBlocks);
    // Blocks that were not listed may begin anywhere from there on.
    const unlisted = starts.length === maxBlocks ? starts.at(-1)!.first : undefined;
    const messages: HistoryMessage[] = [];
    const opened: BlockCursor[] = [];
    const open = new Map<number, BlockCursor>();
    const countTo = (end: Place | undefined) =>
      opened.reduce((sum, cursor) => sum + cursor.countBetween(after, end), 0);
    let bytes = 0;
    for (let next = 0; ; ) {
      const first = firstOf(open.values());
      const start = starts[next];
      if (start && !(first && comparePlaces(first.head!, start.first) < 0)) {
        const cursor = await this.cursorOf(start.id, after);
        if (!cursor) return undefined;
        opened.push(cursor);
        if (cursor.head) open.set(start.id, cursor);
        next += 1;
        continue;
      }
      const isPast = !first || (unlisted && comparePlaces(first.head!, unlisted) >= 0);
      if (!isPast) bytes += first.head!.payload.length;
      const isFull = messages.length === limit || (bytes > MAX_STRETCH_BYTES && messages.length > 0);
      if (isPast || isFull) {
        this.cached = open;
        const completeTo = isPast ? unlisted && placeBefore(unlisted) : messages.at(-1);
        return { messages, completeTo, countTo };
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
