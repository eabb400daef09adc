import { Global, Module } from '@nestjs/common';
import { Archive } from './archive.ts';
import { ArchivedMessages } from './archived-messages.ts';
import { BlockStore } from './block-store.ts';
import { HistoryFailures } from './history-failures.ts';
import { HistoryReader } from './history-reader.ts';
import { HistoryRules } from './history-rules.ts';
import { HistoryUpkeep } from './history-upkeep.ts';
import { RewriteStore } from './rewrite-store.ts';

const EXPORTED = [
  RewriteStore,
  Archive,
  ArchivedMessages,
  BlockStore,
  HistoryFailures,
  HistoryReader,
  HistoryRules,
];

/** Messages beyond the retention of the inbox: compressed, deduplicated, and readable in the order of application. */
@Global()
@Module({ providers: [HistoryUpkeep, ...EXPORTED], exports: EXPORTED })
export class HistoryModule {}
