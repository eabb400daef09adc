import { Injectable } from '@nestjs/common';
import { Activity } from '../telemetry/activity.ts';
import { Metrics } from '../telemetry/metrics.ts';

@Injectable()
export class GroupMetrics {
  readonly rebalances;
  readonly deaths;
  readonly handed;
  readonly committed;
  readonly rejected;
  readonly skipped;
  readonly fenced;

  constructor(
    metrics: Metrics,
    readonly activity: Activity,
  ) {
    const counter = (name: string, help: string) => metrics.counter(name, help, ['group']);
    this.rebalances = counter('group_rebalances_total', 'Times the partitions of a group were assigned.');
    this.deaths = counter(
      'group_members_died_total',
      'Members that were silent for longer than their session.',
    );
    this.handed = counter('group_messages_handed_total', 'Messages handed out by polls, repeats included.');
    this.committed = counter('group_commits_total', 'Commits that moved the offset of a partition.');
    this.rejected = counter('group_messages_rejected_total', 'Messages that became dead letters of a group.');
    this.skipped = counter(
      'group_messages_skipped_total',
      'Messages whose retention was over before the group read or rejected them.',
    );
    this.fenced = counter(
      'group_commits_fenced_total',
      'Commits of members that no longer own the partition.',
    );
  }
}
