import { Injectable } from '@nestjs/common';
import { Reads } from '../../database/reads.ts';
import { INBOX_LANES } from '../../inbox/new-message.ts';
import { laneOf } from '../../lanes/lane-of.ts';
import { DeliveryStore } from '../../outbox/delivery-store.ts';
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
  ) {}

  /** Everything that an operator may mean by the text. */
  async find(text: string): Promise<Found[]> {
    const [rows, delivery] = await Promise.all([
      this.reads.queryWithIndexPlans<Found>(FIND, [text, MAX_OF_A_KIND, laneOf(text, INBOX_LANES)]),
      this.deliveries.find(text, undefined),
    ]);
    if (!delivery) return rows;
    const { id, source, status, type, created_at: at } = delivery;
    return [{ kind: 'delivery', id, source, status, type, at }, ...rows];
  }
}
