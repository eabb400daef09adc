import { type BeforeApplicationShutdown, Injectable } from '@nestjs/common';
import { type MessageState, MessageStates } from '../contract/fresh.ts';
import { groupBy } from '../database/group-by.ts';
import { Reads } from '../database/reads.ts';
import { MESSAGE_STATES } from './message-states.sql.ts';
import { sourceOfCaller } from './new-message.ts';

interface Waiter {
  readonly id: string;
  /** Of the caller. */
  readonly source: string;
  readonly untilMs: number;
  readonly answer: (standing: MessageState) => void;
  readonly fail: (error: unknown) => void;
}

interface StandingRow {
  readonly id: string;
  readonly source: string;
  readonly standing: MessageState;
}

const LOOK_EVERY_MS = 15;

/**
 * Read-your-writes through any replica: all who wait here share one query per look, however many they are, and nobody
 * waits, nobody looks.
 */
@Injectable()
export class InboxMessageStates extends MessageStates implements BeforeApplicationShutdown {
  private readonly waiters = new Set<Waiter>();
  private polling: Promise<void> | undefined;

  constructor(private readonly reads: Reads) {
    super();
  }

  stateOf(id: string, caller: string, waitMs: number): Promise<MessageState> {
    if (id.includes('\u0000')) return Promise.resolve('unknown');
    return new Promise((answer, fail) => {
      const source = sourceOfCaller(caller);
      this.waiters.add({ id, source, untilMs: performance.now() + waitMs, answer, fail });
      this.polling ??= this.pollWhileWaiting();
    });
  }

  async beforeApplicationShutdown(): Promise<void> {
    for (const waiter of this.waiters) waiter.answer('waiting');
    this.waiters.clear();
    await this.polling;
  }

  private async pollWhileWaiting(): Promise<void> {
    while (this.waiters.size > 0) {
      await this.poll();
      if (this.waiters.size > 0) await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    }
    this.polling = undefined;
  }

  private async poll(): Promise<void> {
    const asking = [...this.waiters];
    try {
      const ids = [...new Set(asking.map(({ id }) => id))];
      const rows = await this.reads.query<StandingRow>(MESSAGE_STATES, [ids]);
      const byId = new Map(groupBy(rows, ({ id }) => id).map((group) => [group[0]!.id, group]));
      for (const waiter of asking) {
        const standing = stateFor(waiter, byId.get(waiter.id) ?? []);
        if (standing !== 'waiting' || performance.now() >= waiter.untilMs)
          this.settle(waiter, () => waiter.answer(standing));
      }
    } catch (error) {
      for (const waiter of asking) this.settle(waiter, () => waiter.fail(error));
    }
  }

  private settle(waiter: Waiter, how: () => void): void {
    this.waiters.delete(waiter);
    how();
  }
}

/** The caller's own message; else of all with this id the least advanced. */
function stateFor({ source }: Waiter, rows: readonly StandingRow[]): MessageState {
  const own = rows.find((row) => row.source === source);
  const counts = own ? [own] : rows;
  const standings: readonly MessageState[] = ['waiting', 'dead', 'finished'];
  return standings.find((one) => counts.some(({ standing }) => standing === one)) ?? 'unknown';
}
