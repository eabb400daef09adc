import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { Semaphore } from '../clock/semaphore.ts';
import { Problem } from '../http/problems.ts';
import { type Reservation, ResponsesInFlight } from '../http/responses-in-flight.ts';
import { unblocks, waitingOf } from './blocked.ts';
import { Commits } from './commits.ts';
import type { Place } from './group.ts';
import { GroupBalancer } from './group-balancer.ts';
import { GroupMetrics } from './group-metrics.ts';
import { memberUnknown, noGroup } from './groups-store.ts';
import { DEFAULT_BYTES, DEFAULT_MESSAGES, type PollRequest, waitOf } from './poll-request.ts';
import {
  type BatchPlace,
  type BatchRow,
  type MemberCursor,
  type OffsetOf,
  type PollReply,
  PollStore,
  type StateRow,
  type UnreadPoll,
} from './poll-store.ts';
import { pollText } from './poll-view.ts';
import { PollWaiters } from './poll-waiters.ts';

/** Each takes a connection of the engine; many polls must not delay the processing of messages. */
const MAX_AT_ONCE = 4;

interface OnePoll {
  readonly group: string;
  readonly request: PollRequest;
  /** The client went away. */
  readonly closed: AbortSignal;
  readonly replaced: AbortSignal;
}

interface PollInProgress {
  /** The client went away. */
  readonly closed: AbortSignal;
  /** Ends it, and waits until it hands out nothing any more. */
  readonly replace: () => Promise<void>;
}

interface PollRound {
  readonly group: string;
  readonly request: PollRequest;
  /** The id of the poll, new with each: only the latest of a member hands out. Undefined: a heartbeat. */
  readonly poll: string | undefined;
  readonly waited: 'woken' | 'not woken' | undefined;
  readonly commit: readonly OffsetOf[];
  readonly next: readonly OffsetOf[];
}

export interface PollResult {
  readonly text: string;
  readonly poll: string | undefined;
  /** Without their messages: while the client reads the response, only its bytes are kept. */
  readonly batches: readonly BatchPlace[];
}

/** The long poll of a consumer: commits, hands out, waits. */
@Injectable()
export class Polls {
  private readonly roundTrips = new Semaphore(MAX_AT_ONCE);
  /** By member: the latest poll that this replica serves. */
  private readonly inProgress = new Map<string, PollInProgress>();

  constructor(
    private readonly store: PollStore,
    private readonly commits: Commits,
    private readonly balancer: GroupBalancer,
    private readonly waiters: PollWaiters,
    private readonly metrics: GroupMetrics,
    private readonly responses: ResponsesInFlight,
  ) {}

  /**
   * Undefined: the client went away. A member polls once at a time; but a client whose connection was cut polls again while a
   * proxy in between keeps the earlier poll open. It says so by `next`: such a poll replaces the earlier one.
   */
  async poll(group: string, request: PollRequest, closed: AbortSignal): Promise<PollResult | undefined> {
    const { member } = request;
    if (request.max === 0) return this.heartbeat(group, request);
    const earlier = this.inProgress.get(member);
    if (earlier && !earlier.closed.aborted && !request.next)
      throw new Problem(
        'poll-in-progress',
        'A member polls once at a time. Wait for the other poll, or send `next` to replace it.',
      );
    const replaced = new AbortController();
    const ended = earlier?.replace();
    const polling = this.pollAfter(ended, { group, request, closed, replaced: replaced.signal });
    const current = {
      closed,
      replace: () => {
        replaced.abort();
        return polling.then(nothing, nothing);
      },
    };
    this.inProgress.set(member, current);
    try {
      return await polling;
    } finally {
      if (this.inProgress.get(member) === current) this.inProgress.delete(member);
    }
  }

  private async pollAfter(earlier: Promise<void> | undefined, { group, request, closed, replaced }: OnePoll) {
    await earlier;
    // A replica that was frozen finds polls whose clients have polled elsewhere since.
    if (closed.aborted) return undefined;
    if (replaced.aborted) throw replacedByLaterPoll();
    const result = await this.pollAndWait(group, request, AbortSignal.any([closed, replaced]));
    if (!result && !closed.aborted) throw replacedByLaterPoll();
    return result;
  }

  private async heartbeat(group: string, request: PollRequest): Promise<PollResult> {
    const { polled, outcomes } = await this.firstRound(group, request, undefined);
    if (unblocks(polled.state!, polled.outcomes)) this.waiters.announce(request.member);
    return { text: pollText(polled, outcomes), poll: undefined, batches: [] };
  }

  /** Ends with messages, or when the assignment is not what the member knows, or the time is over. */
  private async pollAndWait(
    group: string,
    request: PollRequest,
    closed: AbortSignal,
  ): Promise<PollResult | undefined> {
    const { member } = request;
    const deadline = performance.now() + waitOf(request);
    const poll = randomUUID();
    const seen = { atMs: performance.now() };
    const first = await this.firstRound(group, request, poll);
    let polled = first.polled;
    const known = fingerprint(polled.state!);
    while (first.isUpToDate && polled.batches.length === 0 && fingerprint(polled.state!) === known) {
      const waitMs = deadline - performance.now();
      if (waitMs <= 0) break;
      const end = await this.waiters.wait(waitingOf(polled.state!, member, seen), waitMs, closed);
      if (end === 'closed') return undefined;
      const waited = end === 'changed' ? 'woken' : 'not woken';
      polled = await this.pollOnce({ group, request, poll, waited, commit: [], next: [] });
      if (end !== 'changed') break;
    }
    this.metrics.skipped.inc({ group }, sumOf(polled.batches, 'skipped'));
    if (closed.aborted) return this.unread({ group, member, poll, batches: polled.batches });
    this.metrics.handed.inc({ group }, sumOf(polled.batches, 'count'));
    const batches = polled.batches.map(({ messages: _, ...place }) => place);
    return { text: pollText(polled, first.outcomes), poll, batches };
  }

  /** The response was not sent: its messages are given back, to a poll of the member that already waits. */
  async unread(unread: UnreadPoll): Promise<undefined> {
    if (unread.batches.length === 0) return;
    const number = await this.store.giveBack(unread);
    if (number !== undefined) this.balancer.announce({ number });
  }

  private async firstRound(group: string, request: PollRequest, poll: string | undefined) {
    const { commit = [], member } = request;
    const next = (request.next ?? []).map(({ next, ...place }) => ({ ...place, offset: next }));
    // A rejection takes statements that depend on each other.
    const rejects = commit.some(({ rejected = [] }) => rejected.length > 0);
    const outcomes = rejects ? (await this.commits.commit(group, member, commit)).outcomes : undefined;
    const polled = await this.pollOnce({
      group,
      request,
      poll,
      waited: undefined,
      commit: rejects ? [] : commit,
      next,
    });
    if (!rejects) this.commits.count(group, polled.outcomes);
    const done = outcomes ?? polled.outcomes;
    const isFenced = done.some(({ outcome }) => outcome === 'fenced');
    return {
      polled,
      outcomes: commit.map((item, index) => ({ item, ...done[index]! })),
      /** Otherwise it must learn at once what it has lost, instead of after the wait. */
      isUpToDate: !isFenced && !polled.rebalanced && owns(polled.state!, next),
    };
  }

  /** One round trip; a second one if partitions had to be assigned, which hands out messages only if the first one did not. */
  private async pollOnce(round: PollRound): Promise<PollReply & { readonly rebalanced?: true }> {
    const polled = await this.roundTrip(round);
    this.check(polled.state, round);
    if (this.hasExpired(polled.state!)) return this.refuseExpired(round, polled);
    if (!polled.state!.unbalanced) return polled;
    await this.balancer.run(round.group);
    const isServed = polled.batches.length > 0;
    const request = isServed ? { ...round.request, max: 0 } : round.request;
    const after = await this.roundTrip({ ...round, request, commit: [], next: [] });
    this.check(after.state, round);
    const batches = isServed ? polled.batches : after.batches;
    return { ...after, outcomes: polled.outcomes, batches, rebalanced: true };
  }

  private async roundTrip({ group, request, poll, waited, commit, next }: PollRound): Promise<PollReply> {
    await this.roundTrips.acquire();
    let room: Reservation | undefined;
    try {
      const { max = DEFAULT_MESSAGES, maxBytes = DEFAULT_BYTES } = request;
      // A heartbeat has no messages, and must not be refused.
      if (max > 0) room = this.responses.reserve(maxBytes);
      return await this.store.poll({
        group,
        member: request.member,
        poll,
        waited,
        max,
        maxBytes: room?.bytes ?? 0,
        commit,
        next,
      });
    } finally {
      room?.release();
      this.roundTrips.release();
    }
  }

  private check(state: StateRow | undefined, { poll }: PollRound): void {
    if (!state) throw noGroup();
    if (!state.known) throw memberUnknown();
    if (poll !== undefined && state.poll !== poll) throw replacedByLaterPoll();
  }

  private hasExpired({ on_expired, cursors }: StateRow): boolean {
    return on_expired === 'stop' && cursors.some((cursor) => !cursor.draining && isExpired(cursor));
  }

  /** What was handed out of other partitions is given back: the problem has no place for it. */
  private async refuseExpired(
    { group, request, poll }: PollRound,
    { state, batches }: PollReply,
  ): Promise<never> {
    await this.unread({ group, member: request.member, poll, batches });
    const places = state!.cursors
      .filter(isExpired)
      .map(
        ({ topic, partition, handed, earliest }) => `${topic}/${partition}: ${handed + 1} to ${earliest - 1}`,
      );
    throw new Problem(
      'offsets-expired',
      `Messages that the group has not read are no longer kept (${places.join(', ')}). An admin has to seek: POST /v1/groups/${group}/seek.`,
    );
  }
}

function sumOf(batches: readonly BatchRow[], name: 'count' | 'skipped'): number {
  return batches.reduce((sum, batch) => sum + batch[name], 0);
}

function nothing(): void {}

function replacedByLaterPoll(): Problem {
  return new Problem('poll-in-progress', 'A later poll of this member replaced this one.');
}

/** Messages that it has not read are no longer kept. */
function isExpired({ earliest, handed }: MemberCursor): boolean {
  return earliest > handed + 1;
}

function owns({ cursors }: StateRow, places: readonly Place[]): boolean {
  const idOf = ({ topic, partition, fence }: Place) => [topic, partition, fence].join('/');
  const owned = new Set(cursors.map(idOf));
  return places.every((place) => owned.has(idOf(place)));
}

/** Changes when the assignment does. */
function fingerprint({ cursors }: StateRow): string {
  return cursors
    .map(({ number, partition, fence, draining }) => [number, partition, fence, draining].join('/'))
    .join();
}
