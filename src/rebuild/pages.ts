import { Injectable } from '@nestjs/common';
import type { Transaction } from '../database/transaction.ts';
import { LANES_PER_GROUP } from '../history/history-message.ts';
import { type GroupCursor, HistorySource } from './history-source.ts';
import { LaneSource, type ReplayMessage } from './lane-source.ts';
import type { Page } from './page.ts';
import type { LaneCursor, Rebuild } from './rebuild.ts';

/** Lanes that are where they were when their messages were read. Others are at work on the rest. $1 rebuild, $2 lanes, $3 applied, $4 positions */
export const LOCK_LANES = `
  SELECT progress.lane FROM rebuild_lane AS progress
  JOIN unnest($2::int[], $3::bigint[], $4::bigint[]) AS read(lane, applied, position) USING (lane, applied, position)
  WHERE progress.rebuild = $1 ORDER BY progress.lane FOR UPDATE OF progress SKIP LOCKED`;

const MAX_LANES = 16;
const MAX_MESSAGES = 2_048;
const NOTHING: Page = { from: [], rows: [] };

/** Which messages a batch applies: of a lane group as long as it has history, then of any lanes, from the inbox. */
@Injectable()
export class Pages {
  /** What other batches of this replica work on. Those of other replicas show when a page is locked. */
  private readonly busy = new Set<string>();

  constructor(
    private readonly history: HistorySource,
    private readonly inbox: LaneSource,
  ) {}

  /**
   * To be released. Undefined: nothing is left of what was applied so far. Empty: other batches have the rest, or it is of
   * lanes that wait for a retry. As a page of a group is all or nothing, one such lane holds up its group.
   */
  async next(
    { id }: Pick<Rebuild, 'id'>,
    types: readonly string[],
    waiting: ReadonlySet<number> = new Set(),
  ): Promise<Page | undefined> {
    const left = await this.history.left(id);
    const groups = groupsOf(waiting);
    const group = this.freeGroup(
      id,
      left.filter((one) => !groups.has(one.group)),
    );
    if (group) return this.reading([groupName(id, group.group)], () => this.history.next(id, group, types));
    const behind = await this.inbox.behind(id);
    if (behind.length === 0) return left.length === 0 ? undefined : NOTHING;
    const from = this.freeLanes(
      id,
      behind.filter(({ lane }) => !waiting.has(lane)),
    );
    if (from.length === 0) return NOTHING;
    const names = from.map(({ lane }) => laneName(id, lane));
    return this.reading(names, async () => {
      const rows = await this.inbox.next(from, Math.ceil(MAX_MESSAGES / from.length), types);
      return { from, rows };
    });
  }

  /** Whether history is read to its end, and the inbox but for this number of messages. */
  async isNearEnd({ id }: Pick<Rebuild, 'id'>, max: number): Promise<boolean> {
    if ((await this.history.left(id)).length > 0) return false;
    return (await this.inbox.countBehind(id, max)) < max;
  }

  /** Whether only these lanes, and groups with one of them, have something left. */
  async areAllAmong({ id }: Pick<Rebuild, 'id'>, lanes: ReadonlySet<number>): Promise<boolean> {
    const groups = groupsOf(lanes);
    const left = await this.history.left(id);
    if (left.some(({ group }) => !groups.has(group))) return false;
    return (await this.inbox.behind(id)).every(({ lane }) => lanes.has(lane));
  }

  release({ id }: Pick<Rebuild, 'id'>, { from, history }: Page): void {
    if (history) this.busy.delete(groupName(id, history.group));
    else for (const { lane } of from) this.busy.delete(laneName(id, lane));
  }

  /**
   * In the transaction that applies the page: its messages of the lanes that are still where they were when it was read. A
   * page with history is applied as a whole or not at all: the rest of it would be taken for applied. Undefined: not at all.
   */
  async lock(
    rebuild: number,
    { from, rows, history }: Page,
    tx: Transaction,
  ): Promise<readonly ReplayMessage[] | undefined> {
    if (history && !(await this.history.lock(rebuild, history, tx))) {
      this.history.close(rebuild, history.group);
      return undefined;
    }
    const locked = await tx.query<{ lane: number }>(LOCK_LANES, [
      rebuild,
      from.map(({ lane }) => lane),
      from.map(({ applied }) => applied),
      from.map(({ position }) => position),
    ]);
    const lanes = new Set(locked.map(({ lane }) => lane));
    const own = rows.filter(({ lane }) => lanes.has(lane));
    return history && own.length < rows.length ? undefined : own;
  }

  /** After the page was applied, in the same transaction. */
  async advance(rebuild: number, { history }: Page, tx: Transaction): Promise<void> {
    if (history) await this.history.advance(rebuild, history, tx);
  }

  private async reading(names: readonly string[], read: () => Promise<Page>): Promise<Page> {
    for (const name of names) this.busy.add(name);
    try {
      return await read();
    } catch (error) {
      for (const name of names) this.busy.delete(name);
      throw error;
    }
  }

  /** The one whose blocks are in memory, else one at random: other replicas take groups, too. */
  private freeGroup(id: number, left: readonly GroupCursor[]): GroupCursor | undefined {
    const free = atRandom(left.filter(({ group }) => !this.busy.has(groupName(id, group))));
    return free.find(({ group }) => this.history.isOpen(id, group)) ?? free[0];
  }

  /** No more than half of them: another batch runs at the same time. */
  private freeLanes(id: number, behind: readonly LaneCursor[]): LaneCursor[] {
    const free = atRandom(behind.filter(({ lane }) => !this.busy.has(laneName(id, lane))));
    return free.slice(0, Math.min(MAX_LANES, Math.ceil(behind.length / 2)));
  }
}

function groupsOf(lanes: ReadonlySet<number>): ReadonlySet<number> {
  return new Set([...lanes].map((lane) => Math.floor(lane / LANES_PER_GROUP)));
}

function groupName(rebuild: number, group: number): string {
  return `${rebuild}/group ${group}`;
}

function laneName(rebuild: number, lane: number): string {
  return `${rebuild}/lane ${lane}`;
}

function atRandom<Item>(items: readonly Item[]): Item[] {
  return items
    .map((item) => ({ item, turn: Math.random() }))
    .sort((a, b) => a.turn - b.turn)
    .map(({ item }) => item);
}
