import { type BeforeApplicationShutdown, Injectable } from '@nestjs/common';
import { Settlements, type Standing } from '../contract/fresh.ts';
import { Reads } from '../database/reads.ts';
import { sourceOfCaller } from './new-message.ts';
import { byKey } from './processing/by-key.ts';
import { STANDINGS } from './settlements.sql.ts';

interface Waiter {
  readonly id: string;
  /** Of the caller. */
  readonly source: string;
  readonly untilMs: number;
  readonly answer: (standing: Standing) => void;
  readonly fail: (error: unknown) => void;
}

interface StandingRow {
  readonly id: string;
  readonly source: string;
  readonly standing: Standing;
}

const LOOK_EVERY_MS = 15;

/**
 * Read-your-writes through any replica: all who wait here share one query per look, however many they are, and nobody
 * waits, nobody looks.
 */
@Injectable()
export class InboxSettlements extends Settlements implements BeforeApplicationShutdown {
  private readonly waiters = new Set<Waiter>();
  private looking: Promise<void> | undefined;

  constructor(private readonly reads: Reads) {
    super();
  }

  standingOf(id: string, caller: string, waitMs: number): Promise<Standing> {
    if (id.includes('\u0000')) return Promise.resolve('unknown');
    return new Promise((answer, fail) => {
      const source = sourceOfCaller(caller);
      this.waiters.add({ id, source, untilMs: performance.now() + waitMs, answer, fail });
      this.looking ??= this.lookUntilNobodyWaits();
    });
  }

  async beforeApplicationShutdown(): Promise<void> {
    for (const waiter of this.waiters) waiter.answer('waiting');
    this.waiters.clear();
    await this.looking;
  }

  private async lookUntilNobodyWaits(): Promise<void> {
    while (this.waiters.size > 0) {
      await this.look();
      if (this.waiters.size > 0) await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    }
    this.looking = undefined;
  }

  private async look(): Promise<void> {
    const asking = [...this.waiters];
    try {
      const ids = [...new Set(asking.map(({ id }) => id))];
      const rows = await this.reads.query<StandingRow>(STANDINGS, [ids]);
      const byId = new Map(byKey(rows, ({ id }) => id).map((group) => [group[0]!.id, group]));
      for (const waiter of asking) {
        const standing = standingFor(waiter, byId.get(waiter.id) ?? []);
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
function standingFor({ source }: Waiter, rows: readonly StandingRow[]): Standing {
  const own = rows.find((row) => row.source === source);
  const counts = own ? [own] : rows;
  const standings: readonly Standing[] = ['waiting', 'dead', 'finished'];
  return standings.find((one) => counts.some(({ standing }) => standing === one)) ?? 'unknown';
}
