import { Injectable } from '@nestjs/common';
import { Reads } from '../database/reads.ts';
import { decodeBlock } from './block-format.ts';
import { BLOCKS_AFTER, BLOCKS_AROUND, BODY, PLACES } from './blocks.sql.ts';
import type { HistoryMessage, Place } from './history-message.ts';

export interface BlockStart {
  readonly id: number;
  readonly first: Place;
}

/** Reads blocks. Their content never changes: a block is replaced by others, or removed. */
@Injectable()
export class BlockStore {
  constructor(private readonly reads: Reads) {}

  /** Blocks of a lane group with messages behind a place, by where they begin. `likePatterns`: of types; undefined: any. */
  async after(
    laneGroup: number,
    place: Place,
    likePatterns: readonly string[] | undefined,
    max: number,
  ): Promise<BlockStart[]> {
    const rows = await this.reads.queryWithIndexPlans<{
      id: number;
      first_applied: number;
      first_position: number;
    }>(BLOCKS_AFTER, [laneGroup, place.applied, place.position, likePatterns ?? null, max]);
    return rows.map((row) => ({
      id: row.id,
      first: { applied: row.first_applied, position: row.first_position },
    }));
  }

  /** Undefined: the block was replaced or removed. */
  async load(id: number): Promise<HistoryMessage[] | undefined> {
    const [row] = await this.reads.queryWithIndexPlans<{ body: Buffer }>(BODY, [id]);
    return row && decodeBlock(row.body);
  }

  around(laneGroup: number, position: number): Promise<{ id: number }[]> {
    return this.reads.queryWithIndexPlans(BLOCKS_AROUND, [laneGroup, position]);
  }

  placesOf(id: string): Promise<{ laneGroup: number; position: number }[]> {
    return this.reads.queryWithIndexPlans(PLACES, [id]);
  }
}
