import { Injectable } from '@nestjs/common';
import { LANE_LOST } from '../claim/claimed-delivery.ts';
import type { HeldLane } from '../claim/held-lane.ts';
import type { Item, Result } from './delivery-result.ts';
import { FlushDelay, type Pending } from './flush-delay.ts';
import { GroupWriter } from './group-writer.ts';
import { LostAttempts } from './lost-attempts.ts';

const MAX_GROUP = 2_000;

/**
 * Writes results in groups. A result that arrives while nothing is being written is written at once; those that arrive
 * during a transaction, and for a moment after it, form the next group: many lanes, many listeners, one commit.
 * A result is kept until it is written or its lane is lost: every call that was made is recorded.
 */
@Injectable()
export class ResultWriter {
  private items: Item[] = [];
  private writing = false;
  private readonly flushDelay = new FlushDelay();

  constructor(
    private readonly groups: GroupWriter,
    private readonly lostAttempts: LostAttempts,
  ) {}

  add(result: Result): void {
    this.push(result);
  }

  /** Resolves when everything added for the lane before is written, or the lane is lost. */
  end(held: HeldLane, release: boolean): Promise<void> {
    return new Promise((resolve) => this.push({ kind: 'end', held, release, resolve }));
  }

  private push(item: Item): void {
    this.items.push(item);
    if (!this.writing) void this.writeAll();
    else if (item.kind === 'end' || this.items.length >= MAX_GROUP) this.flushDelay.flushNow();
  }

  private async writeAll(): Promise<void> {
    this.writing = true;
    await new Promise(setImmediate);
    while (this.items.length > 0) {
      const group = this.items.splice(0, MAX_GROUP);
      const unwritten = await this.groups.write(group);
      await this.lostAttempts.record(unwritten, LANE_LOST);
      for (const item of group) if (item.kind === 'end') item.resolve();
      if (this.items.length < MAX_GROUP) await this.flushDelay.wait(() => this.pending());
    }
    this.writing = false;
  }

  /** The end of a run is urgent: its lane waits for it. */
  private pending(): Pending {
    if (this.items.length === 0) return 'nothing';
    return this.items.some(({ kind }) => kind === 'end') ? 'urgent' : 'results';
  }
}
