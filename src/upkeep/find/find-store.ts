import { Injectable } from '@nestjs/common';
import { Reads } from '../../database/reads.ts';
import { ArchivedMessages } from '../../history/archived-messages.ts';
import type { HistoryMessage } from '../../history/history-message.ts';
import { INBOX_LANES } from '../../inbox/new-message.ts';
import { laneOf } from '../../lanes/lane-of.ts';
import { DeliveryStore, type FoundDelivery } from '../../outbox/delivery-store.ts';
import { FIND } from './find.sql.ts';

export interface Found {
  readonly kind: 'message' | 'delivery' | 'key' | 'listener' | 'topic' | 'group' | 'schedule';
  readonly id: string;
  readonly source: string | null;
  readonly status: string | null;
  readonly type: string | null;
  readonly at: Date | null;
}

const MAX_OF_A_KIND = 10;

@Injectable()
export class FindStore {
  constructor(
    private readonly reads: Reads,
    private readonly deliveries: DeliveryStore,
    private readonly archived: ArchivedMessages,
  ) {}

  /** Everything that an operator may mean by the text. */
  async find(text: string): Promise<Found[]> {
    const [rows, delivery] = await Promise.all([
      this.reads.queryWithIndexPlans<Found>(FIND, [text, MAX_OF_A_KIND, laneOf(text, INBOX_LANES)]),
      this.deliveries.find(text, undefined),
    ]);
    const stored = delivery ? [ofDelivery(delivery), ...rows] : rows;
    // Afterwards: a message that is moved meanwhile is found in history.
    const sources = new Set(rows.filter(({ kind }) => kind === 'message').map(({ source }) => source));
    const moved = (await this.archived.find(text, { source: undefined, own: undefined })).filter(
      ({ source }) => !sources.has(source),
    );
    return [...stored, ...moved.slice(0, MAX_OF_A_KIND).map(ofHistory)];
  }
}

function ofDelivery({ id, source, status, type, created_at: at }: FoundDelivery): Found {
  return { kind: 'delivery', id, source, status, type, at };
}

function ofHistory({ id, source, type, receivedMs }: HistoryMessage): Found {
  return { kind: 'message', id, source, status: 'finished', type, at: new Date(receivedMs) };
}
