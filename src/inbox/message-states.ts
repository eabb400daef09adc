import { type BeforeApplicationShutdown, Injectable } from '@nestjs/common';
import { type MessageState, MessageStates } from '../contract/fresh.ts';
import { groupBy } from '../database/group-by.ts';
import { Reads } from '../database/reads.ts';
import { sourceOfCaller } from './new-message.ts';

/**
 * messages.states — the state of the messages with these ids, one for each source that used the id. A superseded message takes
 * effect through the message that superseded it, so it has the state of that one.
 */
export const MESSAGE_STATES = `
  WITH RECURSIVE asked AS (
    SELECT id, source, status, settled_at, superseded_by FROM inbox WHERE id = ANY ($1::text[])
    UNION ALL
    SELECT asked.id, asked.source, winner.status, winner.settled_at, winner.superseded_by
    FROM asked JOIN inbox AS winner ON winner.position = asked.superseded_by
  )
  SELECT id, source, CASE WHEN bool_or(settled_at IS NULL) THEN 'waiting'
                  WHEN bool_or(status IN ('dead', 'expired', 'discarded')) THEN 'dead' ELSE 'finished' END AS state
  FROM asked GROUP BY id, source`;

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
