import { type BeforeApplicationShutdown, Injectable } from '@nestjs/common';
import { type Loop, type Next } from '../clock/loop.ts';
import { Loops } from '../clock/loops.ts';
import { type Lanes, Wakeups } from '../lanes/wakeups.ts';
import { partitionIdOf, TOPIC_WAKEUPS } from '../topics/topic.ts';
import { GROUP_WAKEUPS, MEMBER_WAKEUPS, memberIdOf } from './group.ts';
import { PollStore } from './poll-store.ts';

/** Finds what no notification told of: other replicas behind a pooler, sessions that end. */
const POLL_MS = 500;

/** A partition that a poll waits for, and the offset that it has not got yet. */
export interface AwaitedPartition {
  readonly topic: number;
  readonly partition: number;
  readonly next: number;
}

export interface Waiting {
  readonly group: number;
  readonly member: string;
  readonly awaited: readonly AwaitedPartition[];
  readonly sessionMs: number;
  /** When a sign of life of the member was last stored, at the earliest; by this process's clock. */
  readonly seen: { atMs: number };
  /** It gets nothing more until it commits: the sum of the offsets that it has committed. */
  readonly committed?: number | undefined;
}

export type WaitEnd = 'changed' | 'timeout' | 'closed' | 'stopping';

interface Waiter extends Waiting {
  readonly untilMs: number;
  readonly partitions: ReadonlySet<number>;
  readonly end: (how: WaitEnd) => void;
}

/** All polls that wait at this replica: no connection each, one query for all of them. */
@Injectable()
export class PollWaiters implements BeforeApplicationShutdown {
  private readonly waiters = new Set<Waiter>();
  /** By partition: every batch of messages looks up the waiters of its partitions. */
  private readonly readers = new Map<number, Set<Waiter>>();
  private readonly loop: Loop;
  private touching: Promise<void> = Promise.resolve();
  private stopping = false;

  constructor(
    private readonly store: PollStore,
    private readonly wakeups: Wakeups,
    loops: Loops,
  ) {
    this.loop = loops.run('api', 'group-polls', POLL_MS, () => this.pass());
    wakeups.on(TOPIC_WAKEUPS, (partitions) => this.wakeReaders(partitions));
    wakeups.on(GROUP_WAKEUPS, (groups) => this.wakeMembers(groups));
    wakeups.on(MEMBER_WAKEUPS, (members) => this.wakeAfterCommit(members));
  }

  /** It has committed what kept more from its poll, which may wait at any replica. */
  announce(member: string): void {
    this.wakeups.announce(MEMBER_WAKEUPS, new Set([memberIdOf(member)]));
  }

  /** Before members are dropped as silent: on a busy machine the pass that does this may be late. */
  keepAlive(): Promise<void> {
    const touch = () => this.touch();
    this.touching = this.touching.then(touch, touch);
    return this.touching;
  }

  /** Until there are messages or the assignment may have changed; `closed`: the client went away. */
  wait(waiting: Waiting, ms: number, closed: AbortSignal): Promise<WaitEnd> {
    if (this.stopping) return Promise.resolve('stopping');
    if (closed.aborted) return Promise.resolve('closed');
    return new Promise((resolve) => {
      const onClosed = () => end('closed');
      const end = (how: WaitEnd) => {
        clearTimeout(timer);
        closed.removeEventListener('abort', onClosed);
        this.remove(waiter);
        resolve(how);
      };
      const partitions = new Set(
        waiting.awaited.map(({ topic, partition }) => partitionIdOf(topic, partition)),
      );
      const waiter: Waiter = { ...waiting, partitions, untilMs: performance.now() + ms, end };
      const timer = setTimeout(() => end('timeout'), ms);
      closed.addEventListener('abort', onClosed, { once: true });
      this.add(waiter);
      // What came after the last read of the database, and before this, was not announced to this waiter.
      this.loop.wake();
    });
  }

  /** A replica that stops returns all waiting polls at once, empty. */
  beforeApplicationShutdown(): void {
    this.stopping = true;
    for (const waiter of [...this.waiters]) waiter.end('stopping');
  }

  private add(waiter: Waiter): void {
    this.waiters.add(waiter);
    for (const partition of waiter.partitions) {
      const readers = this.readers.get(partition);
      if (readers) readers.add(waiter);
      else this.readers.set(partition, new Set([waiter]));
    }
  }

  private remove(waiter: Waiter): void {
    this.waiters.delete(waiter);
    for (const partition of waiter.partitions) {
      const readers = this.readers.get(partition);
      readers?.delete(waiter);
      if (readers?.size === 0) this.readers.delete(partition);
    }
  }

  private wakeReaders(partitions: Lanes): void {
    const woken =
      partitions.size === 0
        ? this.waiters
        : [...partitions].flatMap((partition) => [...(this.readers.get(partition) ?? [])]);
    for (const waiter of [...woken]) waiter.end('changed');
  }

  private wakeMembers(groups: Lanes): void {
    for (const waiter of [...this.waiters])
      if (groups.size === 0 || groups.has(waiter.group)) waiter.end('changed');
  }

  private wakeAfterCommit(members: Lanes): void {
    for (const waiter of [...this.waiters])
      if (members.size === 0 || members.has(memberIdOf(waiter.member))) waiter.end('changed');
  }

  private async touch(): Promise<void> {
    const nowMs = performance.now();
    const due = [...this.waiters].filter((waiter) => isTouchDue(waiter, nowMs));
    if (due.length === 0) return;
    await this.store.touchAll(due);
    for (const { seen, untilMs, sessionMs } of due) seen.atMs = Math.min(nowMs, untilMs - sessionMs / 2);
  }

  private async pass(): Promise<Next> {
    if (this.waiters.size === 0) return 'idle';
    const waiting = [...this.waiters];
    const lowest = new Map<number, AwaitedPartition>();
    for (const one of waiting.flatMap(({ awaited }) => awaited)) {
      const partition = partitionIdOf(one.topic, one.partition);
      if ((lowest.get(partition)?.next ?? Number.POSITIVE_INFINITY) > one.next) lowest.set(partition, one);
    }
    const groups = [...new Set(waiting.map(({ group }) => group))];
    await this.keepAlive();
    const blocked = waiting.flatMap((waiter) => {
      const { group, member, committed } = waiter;
      return committed === undefined ? [] : [{ group, member, committed, waiter }];
    });
    const changes = await this.store.changes([...lowest.values()], groups, blocked);
    const partitions = changes.filter(({ kind }) => kind === 'topic');
    if (partitions.length)
      this.wakeReaders(new Set(partitions.map((one) => partitionIdOf(one.number, one.partition))));
    const unbalanced = changes.filter(({ kind }) => kind === 'group');
    if (unbalanced.length) this.wakeMembers(new Set(unbalanced.map(({ number }) => number)));
    for (const { kind, number } of changes) if (kind === 'member') blocked[number]!.waiter.end('changed');
    return { afterMs: Math.min(POLL_MS, ...waiting.map(({ sessionMs }) => sessionMs / 4)) };
  }
}

/** Pure: as the statement decides; most polls need none, and with 1,000 of them reading all members costs more than the rest. */
export function isTouchDue(
  { untilMs, sessionMs, seen }: Pick<Waiter, 'untilMs' | 'sessionMs' | 'seen'>,
  nowMs: number,
): boolean {
  const lastMs = untilMs - sessionMs / 2;
  return lastMs <= nowMs ? lastMs > seen.atMs : seen.atMs < nowMs - sessionMs / 4;
}
