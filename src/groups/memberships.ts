import { Injectable } from '@nestjs/common';
import { formatDuration } from '../config/duration.ts';
import { Problem } from '../http/problems.ts';
import { GroupBalancer } from './group-balancer.ts';
import type { JoinedMember } from './groups.openapi.ts';
import { GroupsStore, memberUnknown } from './groups-store.ts';
import { PollStore } from './poll-store.ts';
import { assignmentView, heartbeatOf } from './poll-view.ts';

/** Each has a row and is considered at every assignment. */
const MAX_MEMBERS = 1_000;

/** Members of groups: join and leave. */
@Injectable()
export class Memberships {
  constructor(
    private readonly store: GroupsStore,
    private readonly polls: PollStore,
    private readonly balancer: GroupBalancer,
  ) {}

  async join(group: string, name: string | undefined): Promise<JoinedMember> {
    const { member, state } = await this.balancer.change(group, async (row, tx) => {
      const members = await this.store.members(row, tx);
      if (members.length >= MAX_MEMBERS) {
        const expired = await this.store.dropExpired(row, tx);
        if (members.length - expired.length >= MAX_MEMBERS) throw full();
      }
      const member = await this.store.addMember(row, name, tx);
      // In the same transaction: after it, on a slow machine, its session may already be over.
      return { result: async () => ({ member, state: (await this.polls.state(group, member, tx))! }) };
    });
    return {
      member,
      session: formatDuration(state.session_ms),
      heartbeat: heartbeatOf(state),
      ...assignmentView(state),
    };
  }

  /** Its partitions are free at once; what it had in flight is handed out again. */
  async leave(group: string, member: string): Promise<void> {
    await this.balancer.change(group, async (row, tx) => {
      if (!(await this.store.removeMember(row, member, tx))) throw memberUnknown();
      return { result: async () => undefined, left: member };
    });
  }
}

function full(): Problem {
  return new Problem(
    'conflict',
    `The group has ${MAX_MEMBERS} members, the maximum; check that consumers leave when they stop.`,
  );
}
