import { Injectable } from '@nestjs/common';
import { Reads } from '../../database/reads.ts';
import { INBOX_LANES } from '../../inbox/new-message.ts';
import { laneOf } from '../../lanes/lane-of.ts';
import { WAITING } from './keys.sql.ts';

export interface WaitingOfKey {
  readonly count: number;
  readonly oldestSeconds: number;
}

@Injectable()
export class KeysStore {
  constructor(private readonly reads: Reads) {}

  async waiting(key: string): Promise<WaitingOfKey> {
    const values = [laneOf(key, INBOX_LANES), key];
    const [row] = await this.reads.queryWithIndexPlans<WaitingOfKey>(WAITING, values);
    return row!;
  }
}
