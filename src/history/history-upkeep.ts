import { Injectable } from '@nestjs/common';
import { ScheduledJobs } from '../clock/scheduled-jobs.ts';
import { groupBy } from '../database/group-by.ts';
import { MAX_BLOCK_BYTES, MAX_BLOCK_MESSAGES } from './block.ts';
import { HistoryFailures } from './history-failures.ts';
import { HistoryRules } from './history-rules.ts';
import { RewriteStore, type SmallBlock } from './rewrite-store.ts';

const INTERVAL_MS = 60_000;
/** A block with less of both is small. */
const SMALL = { count: MAX_BLOCK_MESSAGES / 2, bytes: MAX_BLOCK_BYTES / 2 };
/** Fewer are not worth being written again: a block is rewritten about four times until it is no longer small. */
const MIN_MERGED = 8;
const MAX_LISTED = 5_000;

/** Merges small blocks, removes what was kept for long enough, and looks after the partitions. */
@Injectable()
export class HistoryUpkeep {
  constructor(
    private readonly store: RewriteStore,
    private readonly rules: HistoryRules,
    private readonly failures: HistoryFailures,
    jobs: ScheduledJobs,
  ) {
    jobs.add({
      role: 'upkeep',
      name: 'history',
      intervalMs: INTERVAL_MS,
      runAtStart: true,
      run: (signal, progressed) => this.run(signal, progressed),
    });
  }

  async run(
    signal: AbortSignal = new AbortController().signal,
    progressed: () => void = () => undefined,
  ): Promise<void> {
    await this.failures.watch('upkeep', async () => {
      await this.store.addPartitions();
      await this.removeAged(signal, progressed);
      await this.mergeSmall(signal, progressed);
      await this.store.dropEmptyPartitions();
      return true;
    });
  }

  /** Every sweep of retention leaves a block per lane group, with as few messages as were due. */
  private async mergeSmall(signal: AbortSignal, progressed: () => void): Promise<void> {
    const small = await this.store.small(SMALL, MAX_LISTED);
    const kind = ({ laneGroup, types }: SmallBlock) => `${laneGroup}/${this.rules.keptMs(types)}`;
    for (const part of groupBy(small, kind).flatMap(mergedParts)) {
      if (signal.aborted) return;
      await this.store.rewrite(
        part.map(({ id }) => id),
        (messages) => messages,
      );
      progressed();
    }
  }

  /** A block is removed when all of its messages were kept for long enough. */
  private async removeAged(signal: AbortSignal, progressed: () => void): Promise<void> {
    const shortestMs = this.rules.shortestMs;
    if (shortestMs === undefined) return;
    for (let after = 0; ; ) {
      const aged = await this.store.aged(shortestMs, after, MAX_LISTED);
      for (const { id, types, ageMs } of aged) {
        if (signal.aborted) return;
        const keptMs = this.rules.keptMs(types);
        if (keptMs === undefined || ageMs <= keptMs) continue;
        await this.store.removeAged(id);
        progressed();
      }
      if (aged.length < MAX_LISTED) return;
      after = aged.at(-1)!.id;
    }
  }
}

/** Pure: neighbours that fit into one block, if there are enough of them. */
export function mergedParts(small: readonly SmallBlock[]): SmallBlock[][] {
  const parts: SmallBlock[][] = [];
  let [count, bytes] = [Number.POSITIVE_INFINITY, 0];
  for (const block of small) {
    [count, bytes] = [count + block.count, bytes + block.bytes];
    if (count > MAX_BLOCK_MESSAGES || bytes > MAX_BLOCK_BYTES) {
      parts.push([]);
      [count, bytes] = [block.count, block.bytes];
    }
    parts.at(-1)!.push(block);
  }
  return parts.filter(
    (part) => part.length >= MIN_MERGED || part.reduce((sum, one) => sum + one.count, 0) >= SMALL.count,
  );
}
