import { Injectable } from '@nestjs/common';
import { Reads } from '../database/reads.ts';
import { FIND_DELIVERY, FIND_NEWEST } from './delivery-by-id.sql.ts';
import type { DeliveryRow } from './fan-out/delivery-view.ts';

export interface FoundDelivery extends DeliveryRow {
  readonly position: number;
  readonly lane: number;
  /** What keeps order: the message's key, or the delivery's own id. */
  readonly order_key: string;
  readonly listener_number: number;
  /** Its listener was deleted. */
  readonly deleted: boolean;
  /** Of the message; null if its retention is over. */
  readonly message: string | null;
  readonly source: string | null;
  readonly type: string | null;
  readonly key: string | null;
}

/** How many deliveries are read to find one that is not in an index. */
export const MAX_NEWEST = 50_000;

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Deliveries by their id, which is the `webhook-id` that their receivers know. */
@Injectable()
export class DeliveryStore {
  constructor(private readonly reads: Reads) {}

  /** `message`: the id of its message, if that is known; without it an old delivery that succeeded is not found. */
  async find(id: string, message: string | undefined): Promise<FoundDelivery | undefined> {
    if (!UUID.test(id)) return undefined;
    const [indexed] = await this.reads.queryWithIndexPlans<FoundDelivery>(FIND_DELIVERY, [
      id,
      message ?? null,
    ]);
    if (indexed || message !== undefined) return indexed;
    const [newest] = await this.reads.queryWithIndexPlans<FoundDelivery>(FIND_NEWEST, [id, MAX_NEWEST]);
    return newest;
  }
}
