import { splitByBytes } from '../database/split-by-bytes.ts';
import { merged, type Stretch } from './block-cursor.ts';
import { type BlockReader, MAX_STRETCH_BYTES } from './block-reader.ts';
import type { HistoryMessage, Place } from './history-message.ts';

export interface InboxSources {
  readonly inboxAfter: (place: Place, max: number) => Promise<(Place & { readonly bytes: number })[]>;
  readonly loadInbox: (positions: readonly number[]) => Promise<HistoryMessage[]>;
}

/** Reads one lane group, in the order of application: its blocks, and what is still in the inbox. */
export class GroupReader {
  constructor(
    private readonly blocks: BlockReader,
    private readonly sources: InboxSources,
  ) {}

  /** The next messages behind a place: up to `limit` or about 8 MiB. Empty: there are no more, for now. */
  async read(after: Place, limit: number): Promise<HistoryMessage[]> {
    // In this order: a message that is moved meanwhile is found twice, never missed.
    const inbox = await this.fromInbox(after, limit);
    return merged(inbox, await this.fromBlocks(after, limit), limit);
  }

  private async fromInbox(after: Place, limit: number): Promise<Stretch> {
    const places = await this.sources.inboxAfter(after, limit);
    const [taken = []] = splitByBytes(places, MAX_STRETCH_BYTES, ({ bytes }) => bytes);
    const messages = taken.length ? await this.sources.loadInbox(taken.map(({ position }) => position)) : [];
    const isCut = taken.length < places.length || places.length === limit;
    return { messages, completeTo: isCut ? taken.at(-1) : undefined };
  }

  /** Until there is a message, or the end. */
  private async fromBlocks(after: Place, limit: number): Promise<Stretch> {
    let stretch = await this.blocks.read(after, limit);
    while (stretch.messages.length === 0 && stretch.completeTo)
      stretch = await this.blocks.read(stretch.completeTo, limit);
    return stretch;
  }
}
