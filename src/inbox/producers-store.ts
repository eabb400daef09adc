import { Injectable } from '@nestjs/common';
import { Reads } from '../database/reads.ts';
import type { ProducerName } from './ingest-store.ts';
import { fromMultirange, NEW_PRODUCER, type ProducerState } from './producer-sequence.ts';

/** producers.find — what a producer sent so far. $1: the source of its api key, $2: its id. */
export const FIND_PRODUCER = `
  SELECT last, missing::text AS missing FROM producer WHERE source = $1 AND id = $2`;

@Injectable()
export class ProducersStore {
  constructor(private readonly reads: Reads) {}

  /** A producer that has sent nothing is a new one: nobody registers producers. */
  async find({ source, id }: ProducerName): Promise<ProducerState> {
    const [row] = await this.reads.query<{ last: number; missing: string }>(FIND_PRODUCER, [source, id]);
    return row ? { last: row.last, missing: fromMultirange(row.missing) } : NEW_PRODUCER;
  }
}
