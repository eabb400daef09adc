import { Injectable } from '@nestjs/common';
import type { Transaction } from '../database/transaction.ts';
import { INSERT_BLOCK, MOVE } from './archive.sql.ts';
import { blocksOf, columnsOf } from './block.ts';
import type { HistoryMessage } from './history-message.ts';
import { HistoryRules } from './history-rules.ts';

/** Moves messages from the inbox to history. */
@Injectable()
export class Archive {
  constructor(private readonly rules: HistoryRules) {}

  /** In one transaction, so a message is in exactly one of the two. Returns how many were moved. */
  async move(positions: readonly number[], tx: Transaction): Promise<number> {
    const messages = await tx.query<HistoryMessage>(MOVE, [positions]);
    await this.write(messages, tx);
    return messages.length;
  }

  /** Types that are kept for different times are in different blocks. */
  async write(messages: readonly HistoryMessage[], tx: Transaction): Promise<void> {
    const blocks = await blocksOf(messages, ({ type }) => this.rules.indexOf(type));
    await Promise.all(blocks.map((block) => tx.execute(INSERT_BLOCK, columnsOf(block))));
  }
}
