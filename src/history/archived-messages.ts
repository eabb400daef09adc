import { Injectable } from '@nestjs/common';
import { Semaphore } from '../clock/semaphore.ts';
import { BlockStore } from './block-store.ts';
import type { HistoryMessage } from './history-message.ts';

/** A block is replaced when small blocks are merged; then the message is in another one. */
const ATTEMPTS = 5;
/** Of requests: each has a block in memory, with all its messages. */
const MAX_AT_ONCE = 4;

interface Wanted {
  readonly source: string | undefined;
  readonly own: string | undefined;
}

/** Finds messages in history by their ids. */
@Injectable()
export class ArchivedMessages {
  private readonly searches = new Semaphore(MAX_AT_ONCE);

  constructor(private readonly blocks: BlockStore) {}

  /** Several sources may have used the id: only the first message and that of `own` have their payload. */
  async find(id: string, wanted: Wanted): Promise<HistoryMessage[]> {
    const places = await this.blocks.placesOf(id);
    if (places.length === 0) return [];
    await this.searches.acquire();
    try {
      return await this.findAt(places, id, wanted);
    } finally {
      this.searches.release();
    }
  }

  private async findAt(
    places: Awaited<ReturnType<BlockStore['placesOf']>>,
    id: string,
    { source, own }: Wanted,
  ): Promise<HistoryMessage[]> {
    const found: HistoryMessage[] = [];
    for (const { laneGroup, position } of places) {
      const message = await this.at(laneGroup, position);
      if (message?.id !== id || (source !== undefined && message.source !== source)) continue;
      const isReturned = found.length === 0 || message.source === own;
      found.push(isReturned ? message : { ...message, payload: '' });
    }
    return found;
  }

  private async at(laneGroup: number, position: number): Promise<HistoryMessage | undefined> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      let replaced = false;
      for (const { id } of await this.blocks.around(laneGroup, position)) {
        const messages = await this.blocks.load(id);
        const message = messages?.find((one) => one.position === position);
        if (message) return message;
        replaced ||= messages === undefined;
      }
      if (!replaced) return undefined;
    }
    return undefined;
  }
}
