import { type Duration, milliseconds } from '../duration.ts';
import type { Api } from '../http/api.ts';
import type { Assignment, CommitItem, CommitOutcome, JoinReply, PollReply, PollRequest } from './wire.ts';

export interface Membership extends Assignment {
  readonly member: string;
  /** A member that is silent for this long is dropped. */
  readonly sessionMs: number;
  /** How often it should send a heartbeat. */
  readonly heartbeatMs: number;
}

const JOIN_RETRIES = 2;
const LEAVE_RETRIES = 2;

/** The routes of one group. A poll and a commit are one try over all URLs: what they say is outdated when it is repeated. */
export class GroupApi {
  private readonly path: string;

  constructor(
    private readonly api: Api,
    group: string,
  ) {
    this.path = `/v1/groups/${encodeURIComponent(group)}`;
  }

  async join(name: string | undefined): Promise<Membership> {
    const body = JSON.stringify({ name });
    const { session, heartbeat, ...joined } = await this.api.call<JoinReply>('POST', `${this.path}/members`, {
      body,
      retries: JOIN_RETRIES,
    });
    return {
      ...joined,
      sessionMs: milliseconds(session as Duration, 'session'),
      heartbeatMs: milliseconds(heartbeat as Duration, 'heartbeat'),
    };
  }

  /** Takes longer than the service waits, so that it is the service that ends the wait. */
  poll(request: PollRequest, waitMs: number, signal: AbortSignal): Promise<PollReply> {
    const timeoutMs = waitMs + this.api.timeoutMs;
    const body = JSON.stringify({ ...request, wait: `${waitMs}ms` });
    return this.api.call<PollReply>('POST', `${this.path}/poll`, { body, timeoutMs, signal });
  }

  /** A sign of life, and nothing else. */
  heartbeat(member: string, timeoutMs: number): Promise<unknown> {
    const body = JSON.stringify({ member, max: 0 });
    return this.api.call('POST', `${this.path}/poll`, { body, timeoutMs });
  }

  async commit(member: string, offsets: readonly CommitItem[]): Promise<readonly CommitOutcome[]> {
    const body = JSON.stringify({ member, offsets });
    const reply = await this.api.call<{ offsets: CommitOutcome[] }>('POST', `${this.path}/commit`, { body });
    return reply.offsets;
  }

  leave(member: string): Promise<void> {
    const path = `${this.path}/members/${encodeURIComponent(member)}`;
    return this.api.call<void>('DELETE', path, { retries: LEAVE_RETRIES });
  }
}
