import { type BeforeApplicationShutdown, Injectable } from '@nestjs/common';
import { type MessageState, MessageStates } from '../contract/fresh.ts';
import { groupBy } from '../database/group-by.ts';
import { Reads } from '../database/reads.ts';
import { MESSAGE_STATES } from './message-states.sql.ts';
import { sourceOfCaller } from './new-message.ts';

interface Waiter {
  readonly id: string;
  /** The caller's own source. */
  readonly source: string;
  readonly untilMs: number;
  readonly resolve: (state: MessageState) => void;
  readonly fail: (error: unknown) => void;
}

interface StateRow {
  readonly id: string;
  readonly source: string;
  readonly state: MessageState;
}

const POLL_MS = 15;

/**
 * Read-your-writes through any replica: all waiting requests share one query per poll, however many they are. While no
 * request waits, there is no polling.
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
    return new Promise((resolve, fail) => {
      const source = sourceOfCaller(caller);
      this.waiters.add({ id, source, untilMs: performance.now() + waitMs, resolve, fail });
      this.polling ??= this.pollWhileWaiting();
    });
  }

  async beforeApplicationShutdown(): Promise<void> {
    for (const waiter of this.waiters) waiter.resolve('waiting');
    this.waiters.clear();
    await this.polling;
  }

  private async pollWhileWaiting(): Promise<void> {
    while (this.waiters.size > 0) {
      await this.poll();
      if (this.waiters.size > 0) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    this.polling = undefined;
  }

  private async poll(): Promise<void> {
    const asking = [...this.waiters];
    try {
      const ids = [...new Set(asking.map(({ id }) => id))];
      const rows = await this.reads.query<StateRow>(MESSAGE_STATES, [ids]);
      const byId = new Map(groupBy(rows, ({ id }) => id).map((group) => [group[0]!.id, group]));
      for (const waiter of asking) {
        const state = stateFor(waiter, byId.get(waiter.id) ?? []);
        if (state !== 'waiting' || performance.now() >= waiter.untilMs)
          this.settle(waiter, () => waiter.resolve(state));
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

/** The state of the caller's own message; otherwise the least advanced of all messages with this id. */
function stateFor({ source }: Waiter, rows: readonly StateRow[]): MessageState {
  const own = rows.find((row) => row.source === source);
  const relevant = own ? [own] : rows;
  const states: readonly MessageState[] = ['waiting', 'dead', 'finished'];
  return states.find((one) => relevant.some(({ state }) => state === one)) ?? 'unknown';
}
