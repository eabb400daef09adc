import type { Partition } from './partition.ts';
import type { Message } from './wire.ts';

/** What becomes of the messages that are fetched. */
export interface Work {
  begin(progress: Progress): void;
  /** How many messages to fetch now; 0 unless at least half of the buffer is free. */
  room(): number;
  take(partition: Partition, messages: readonly Message[]): void;
  /** The partition is lost: its messages that have not started are dropped. */
  drop(partition: Partition): void;
  /** What has been running for longer than it may, if anything: then the member must not appear to be alive. */
  readonly overdue: string | undefined;
  /** Starts nothing new that can be left to others; resolves when everything started is finished. */
  drain(): Promise<void>;
  /** Starts nothing more at all. */
  end(): void;
}

/** What the work reports to the loop that fetches. */
export interface Progress {
  /** More of this partition can be committed. */
  advanced(partition: Partition): void;
  /** There may be room for more, or what was overdue is over. */
  wake(): void;
}
