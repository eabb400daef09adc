import { Inject, Injectable } from '@nestjs/common';
import { Database } from '../database/database.ts';
import type { Transaction } from '../database/transaction.ts';
import { Wakeups } from '../lanes/wakeups.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { assign } from './assign.ts';
import { afterDeath, afterLeave, type Cursor } from './cursor.ts';
import { GROUP_WAKEUPS, type GroupRow } from './group.ts';
import { GroupMetrics } from './group-metrics.ts';
import { type CursorChange, GroupsStore } from './groups-store.ts';
import { PollWaiters } from './poll-waiters.ts';
import { RejectionsStore } from './rejections-store.ts';

/** Assigns partitions to members: under the lock of the group, and only if its members or topics have changed. */
@Injectable()
export class GroupBalancer {
  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly store: GroupsStore,
    private readonly rejections: RejectionsStore,
    private readonly waiters: PollWaiters,
    private readonly wakeups: Wakeups,
    private readonly metrics: GroupMetrics,
  ) {}

  /** `change` adds or removes a member; `left` is who went on its own account. Returns what `result` reads after the assignment. */
  async change<Result>(
    group: string,
    change: (row: GroupRow, tx: Transaction) => Promise<{ result: () => Promise<Result>; left?: string }>,
  ): Promise<Result> {
    await this.waiters.keepAlive();
    const done = await this.database.transaction(async (tx) => {
      const row = await this.store.lock(group, tx);
      const { result, left } = await change(row, tx);
      const balanced = await this.balance(row, left, tx);
      return { row, result: await result(), ...balanced };
    });
    this.report(done.row, done.dead);
    if (done.changed) this.announce(done.row);
    return done.result;
  }

  /** Called by a poll that found something to do. */
  async run(group: string): Promise<void> {
    await this.change(group, async () => ({ result: async () => undefined }));
  }

  announce({ number }: Pick<GroupRow, 'number'>): void {
    this.wakeups.announce(GROUP_WAKEUPS, new Set([number]));
  }

  private async balance(row: GroupRow, left: string | undefined, tx: Transaction) {
    const dead = await this.store.dropExpired(row, tx);
    await this.store.matchCursors(row, tx);
    const [members, before] = await Promise.all([
      this.store.members(row, tx),
      this.store.lockCursors(row, tx),
    ]);
    const taken = await this.takeBack(row, before, new Set(dead), left, tx);
    const assignments = assign(members, taken, row.takeover);
    const changes = new Map<Cursor, CursorChange>();
    taken.forEach((after, index) => {
      if (after !== before[index]) changes.set(after, { before: before[index]!, after });
    });
    for (const assignment of assignments) {
      const { cursor, owner, draining } = assignment;
      const known = changes.get(cursor);
      const rest = assignment.split ? await this.store.split(row, assignment, tx) : cursor;
      const former_owner =
        owner === cursor.owner ? cursor.former_owner : (cursor.owner ?? cursor.former_owner);
      const after = { ...rest, owner, draining, former_owner };
      changes.set(cursor, { before: assignment.split ? rest : (known?.before ?? cursor), after });
    }
    await this.store.update(row, [...changes.values()], tx);
    await this.store.setBalanced(row, dead.length > 0, tx);
    return { dead, changed: changes.size > 0 };
  }

  /** Takes the cursors of members that died or left from them. */
  private async takeBack(
    row: GroupRow,
    cursors: readonly Cursor[],
    dead: ReadonlySet<string>,
    left: string | undefined,
    tx: Transaction,
  ): Promise<Cursor[]> {
    const taken: Cursor[] = [];
    for (const cursor of cursors) {
      if (cursor.owner === null || (!dead.has(cursor.owner) && cursor.owner !== left)) taken.push(cursor);
      else if (cursor.owner === left) taken.push(afterLeave(cursor));
      else {
        const death = afterDeath(cursor, row.attempts);
        if (death.exhausted) {
          const { topic, partition, handed, fence } = cursor;
          const reason = `its consumer died ${row.attempts} times while it had this message`;
          await this.rejections.reject(row, [{ topic, partition, offset: handed, fence, reason }], tx);
        }
        taken.push(death.cursor);
      }
    }
    return taken;
  }

  private report({ name }: GroupRow, dead: readonly string[]): void {
    this.metrics.rebalances.inc({ group: name });
    if (dead.length === 0) return;
    this.metrics.deaths.inc({ group: name }, dead.length);
    this.log.warn(
      { event: 'groups.members-died', group: name, members: dead },
      'members were silent for longer than the session; what they had in flight is handed out again',
    );
  }
}
