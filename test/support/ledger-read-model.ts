import { Injectable } from '@nestjs/common';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import { oneTableReadModel } from './one-table-read-model.ts';

@Denormalizer({ types: ['test/count'] })
@Injectable()
class Ledger {
  async apply({ key, payload }: Message<{ n: number }>, tx: ReadModelTransaction): Promise<void> {
    await tx.query(
      `INSERT INTO ledger AS known (key, n, applied, wrong) VALUES ($1, $2::int, 1, CASE WHEN $2::int = 1 THEN 0 ELSE 1 END)
       ON CONFLICT (key) DO UPDATE SET n = $2::int, applied = known.applied + 1,
         wrong = known.wrong + CASE WHEN $2::int = known.n + 1 THEN 0 ELSE 1 END`,
      [key, payload.n],
    );
  }
}

/** Of each key: its last number, how many were applied, and how many did not follow the one before. */
export const readModel = {
  ...oneTableReadModel('ledger (key text PRIMARY KEY, n int, applied int, wrong int)', [Ledger]),
  keyColumns: { ledger: 'key' },
};

export interface LedgerRow {
  readonly key: string;
  readonly n: number;
  readonly applied: number;
  readonly wrong: number;
}
