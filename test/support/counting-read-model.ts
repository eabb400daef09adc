import { Injectable } from '@nestjs/common';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import { oneTableReadModel } from './one-table-read-model.ts';

@Denormalizer({ types: ['counted/x'] })
@Injectable()
class Counting {
  async apply({ id }: Message, tx: ReadModelTransaction): Promise<void> {
    await tx.query('INSERT INTO applied VALUES ($1)', [id]);
  }
}

/** Writes one row per application of a message, without a unique constraint: a second application shows. */
export const countingReadModel = oneTableReadModel('applied (id text NOT NULL)', [Counting]);
