import { Injectable } from '@nestjs/common';
import { Database } from '../database/database.ts';
import { unblocks } from './blocked.ts';
import { GroupBalancer } from './group-balancer.ts';
import { GroupMetrics } from './group-metrics.ts';
import { GroupsStore, memberUnknown, noGroup } from './groups-store.ts';
import type { CommitItem } from './poll-request.ts';
import { type Outcome, PollStore } from './poll-store.ts';
import { PollWaiters } from './poll-waiters.ts';
import { RejectionsStore } from './rejections-store.ts';

/**
 * Commits offsets and records rejections, in one transaction: for a commit of its own, and for a poll with rejections. Other
 * polls commit in their own round trip (`PollStore.poll`) and only count here.
 */
@Injectable()
export class Commits {
  constructor(
    private readonly database: Database,
    private readonly groups: GroupsStore,
    private readonly store: PollStore,
    private readonly rejections: RejectionsStore,
    private readonly balancer: GroupBalancer,
    private readonly waiters: PollWaiters,
    private readonly metrics: GroupMetrics,
  ) {}

  async commit(
    group: string,
    member: string,
    items: readonly CommitItem[],
  ): Promise<{ outcomes: Outcome[] }> {
    const { outcomes, rejected, state } = await this.database.transaction(async (tx) => {
      const row = await this.groups.existing(group, tx);
      if (!(await this.store.touch(group, member, tx))) throw memberUnknown();
      const outcomes = await this.store.commit(group, member, items, tx);
      const accepted = items.flatMap(({ rejected = [], partition, fence }, index) => {
        const { topic, outcome } = outcomes[index]!;
        if (topic === null || outcome === 'fenced' || outcome === 'ahead') return [];
        return rejected.map(({ offset, reason }) => ({ topic, partition, offset, fence, reason }));
      });
      const rejected = await this.rejections.reject(row, accepted, tx);
      return { outcomes, rejected, state: await this.store.state(group, member, tx) };
    });
    if (!state) throw noGroup();
    this.count(group, outcomes);
    this.metrics.rejected.inc({ group }, rejected.recorded);
    this.metrics.skipped.inc({ group }, rejected.expired);
    if (unblocks(state, outcomes)) this.waiters.announce(member);
    // The last commit of a partition that drains makes it free for others, who may wait for it.
    if (state.unbalanced) await this.balancer.run(group);
    return { outcomes };
  }

  count(group: string, outcomes: readonly Outcome[]): void {
    this.metrics.committed.inc({ group }, outcomes.filter(({ moved }) => moved).length);
    this.metrics.activity.committed(
      group,
      outcomes.reduce((sum, { messages }) => sum + messages, 0),
    );
    this.metrics.fenced.inc({ group }, outcomes.filter(({ outcome }) => outcome === 'fenced').length);
  }
}
