import { Injectable } from '@nestjs/common';
import { Reads } from '../database/reads.ts';
import { PAGE_BYTES } from '../http/page-bytes.ts';
import { BROWSE } from './browse.sql.ts';
import type { Topic } from './topic.ts';
import type { TopicMessages } from './topics.openapi.ts';
import { noTopic } from './topics-store.ts';

interface BrowsePage {
  readonly earliest: number;
  readonly next: number;
  readonly first: number | null;
  readonly last: number | null;
  readonly count: number;
  readonly messages: string | null;
}

/** Reads a topic without a group, for people and tools. */
@Injectable()
export class BrowseStore {
  constructor(private readonly reads: Reads) {}

  /** JSON text: the payloads are exactly as they were posted. */
  async browse(topic: Topic, partition: number, from: number, limit: number): Promise<string> {
    const values = [topic.number, partition, from, limit, PAGE_BYTES];
    const [row] = await this.reads.queryWithIndexPlans<BrowsePage>(BROWSE, values);
    // Deleted since it was found.
    if (!row) throw noTopic(topic.name);
    const { earliest, next, first, last, count, messages } = row;
    const head: Omit<TopicMessages, 'messages'> = {
      topic: topic.name,
      partition,
      earliest,
      next,
      from: first ?? from,
      to: last,
      count,
    };
    return `${JSON.stringify(head).slice(0, -1)},"messages":[${messages ?? ''}]}`;
  }
}
