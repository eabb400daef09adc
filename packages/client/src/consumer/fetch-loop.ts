import { clientError, SluiceError } from '../errors.ts';
import type { OnEvent } from '../events.ts';
import { backoff } from '../http/backoff.ts';
import { EarlyPause } from '../http/early-pause.ts';
import { pause } from '../http/pause.ts';
import { Committer } from './committer.ts';
import type { GroupApi, Membership } from './group-api.ts';
import { OwnedPartitions } from './owned-partitions.ts';
import type { Partition } from './partition.ts';
import type { Progress, Work } from './work.ts';

export interface FetchOptions {
  readonly group: string;
  readonly name: string | undefined;
  readonly topics: readonly string[] | undefined;
  readonly waitMs: number;
  readonly maxBytes: number | undefined;
  readonly onEvent: OnEvent;
}

/** A limit of the service. */
const MAX_POLLED = 5_000;
/** A poll waits for half a session; its response is late after this share of one. */
const LATE_POLL = 0.6;
const HEARTBEAT_TIMEOUT = 0.2;
const DROPPED = 'the service has dropped this member';

/**
 * The life of a member: join, poll, commit, leave. One poll at a time; a poll that fetches nothing is the heartbeat. Each poll
 * states the next offset of every partition, so that what was handed out in a response that got lost is handed out again.
 */
export class FetchLoop implements Progress {
  private membership: Membership | undefined;
  private readonly partitions: OwnedPartitions;
  private readonly committer: Committer;
  private readonly early = new EarlyPause();
  private lastContactMs = 0;
  private failures = 0;
  private stopping = false;
  private wakeUp: () => void = () => undefined;
  private polling: AbortController | undefined;
  /** Aborts when the work is drained, or is not waited for any longer. */
  private readonly drained = new AbortController();

  constructor(
    private readonly group: GroupApi,
    private readonly work: Work,
    private readonly options: FetchOptions,
  ) {
    this.partitions = new OwnedPartitions(work, options);
    this.committer = new Committer({
      partitions: this.partitions,
      send: (items) => this.heard(group.commit(this.membership!.member, items)),
      // A member with an overdue handler must appear to be dead.
      isSilent: () =>
        work.overdue !== undefined || this.membership === undefined || this.drained.signal.aborted,
      forget: () => this.forget(DROPPED),
      onEvent: options.onEvent,
    });
    work.begin(this);
  }

  /** Resolves after `stop`; fails with what the service refuses for good. */
  async run(): Promise<void> {
    try {
      while (!this.drained.signal.aborted) await this.guarded(() => this.pass());
      await this.committer.until(() => this.partitions.commits().length === 0);
    } finally {
      this.work.end();
      await this.committer.end();
      this.partitions.loseAll(undefined);
      await this.leave();
    }
  }

  /** Stops fetching and drains; what is not finished after this time is left to others. */
  async stop(timeoutMs: number): Promise<void> {
    if (this.stopping) return;
    this.stopping = true;
    this.polling?.abort();
    this.wake();
    const enough = new AbortController();
    await Promise.race([this.work.drain(), pause(timeoutMs, enough.signal)]);
    enough.abort();
    this.drained.abort();
    this.polling?.abort();
    this.wake();
  }

  wake(): void {
    this.wakeUp();
  }

  advanced(partition: Partition): void {
    this.committer.soon(partition.draining && partition.isFinished);
  }

  /** Commits now; fails unless the service has recorded it. */
  async commit(partition: Partition): Promise<void> {
    await this.committer.until(() => partition.isLost || partition.isCommitted);
    // The service may have recorded it and handed the partition over before it responded.
    await this.committer.idle();
    if (partition.isCommitted) return;
    const detail = `${partition.name} belongs to another member; nothing was recorded.`;
    throw clientError('partition-lost', 'Partition lost', detail);
  }

  private async pass(): Promise<void> {
    this.membership ??= await this.join();
    const { membership } = this;
    const { sessionMs, heartbeatMs } = membership;
    const silentMs = performance.now() - this.lastContactMs;
    if (this.work.overdue !== undefined) {
      if (silentMs < sessionMs) return this.sleep(sessionMs - silentMs);
      throw this.hung(this.work.overdue);
    }
    // What is in flight is not committed a second time.
    await this.committer.idle();
    if (this.membership !== membership) return;
    const max = this.stopping ? 0 : this.work.room();
    if (max === 0 && silentMs < heartbeatMs) return this.sleep(heartbeatMs - silentMs);
    await this.poll(membership, Math.min(max, MAX_POLLED));
  }

  /** It does not leave: for the service it is dead, so that what it had counts as an attempt of those messages. */
  private hung(what: string): SluiceError {
    this.forget(what);
    const detail = `${what}, for longer than the session of the group. Others get its messages; restart this process.`;
    return clientError('handler-timeout', 'Handler timeout', detail);
  }

  private async join(): Promise<Membership> {
    const membership = await this.heard(this.group.join(this.options.name));
    this.membership = membership;
    this.options.onEvent({ event: 'consumer.joined', detail: `member ${membership.member}` });
    this.partitions.assign(membership);
    return membership;
  }

  private async poll(membership: Membership, max: number): Promise<void> {
    const { member, sessionMs } = membership;
    const polling = new AbortController();
    this.polling = polling;
    const commit = this.partitions.commits();
    const { maxBytes } = this.options;
    // The service does not take a waiting poll for a sign of life: half a session is left for the next one to arrive.
    const waitMs = max === 0 ? 0 : Math.min(this.options.waitMs, Math.floor(sessionMs / 2));
    const request = { member, max, next: this.partitions.nextOffsets(), commit };
    const startedMs = performance.now();
    const stopHeartbeats = this.heartbeatsIfLate(membership);
    try {
      const sized = maxBytes === undefined ? request : { ...request, maxBytes };
      const reply = await this.heard(this.group.poll(sized, waitMs, polling.signal));
      this.partitions.settle(commit, reply.committed);
      this.partitions.apply(reply);
      const tookMs = performance.now() - startedMs;
      await this.early.after({ isEmpty: reply.batches.length === 0, tookMs, waitMs }, polling.signal);
    } catch (error) {
      if (!polling.signal.aborted) throw error;
    } finally {
      stopHeartbeats();
      this.polling = undefined;
    }
  }

  /** A replica that is frozen holds the poll for longer than a session may last: another one hears that the member is alive. */
  private heartbeatsIfLate({ member, sessionMs, heartbeatMs }: Membership): () => void {
    const beat = () => {
      timer = setTimeout(beat, heartbeatMs);
      if (this.work.overdue !== undefined) return;
      // The poll reports what is wrong.
      this.heard(this.group.heartbeat(member, sessionMs * HEARTBEAT_TIMEOUT)).catch(() => undefined);
    };
    let timer = setTimeout(beat, sessionMs * LATE_POLL);
    return () => clearTimeout(timer);
  }

  /** What may pass is waited for; a member that is not known any more starts over; everything else ends the run. */
  private async guarded(step: () => Promise<void>): Promise<void> {
    try {
      await step();
      this.failures = 0;
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error;
      if (error.is('member-unknown')) return this.forget(DROPPED);
      if (!error.retryable && !error.is('poll-in-progress')) throw error;
      this.options.onEvent({ event: 'request.retried', detail: error.message, error });
      await pause(backoff(this.failures++, error.retryAfter), this.drained.signal);
    }
  }

  private forget(why: string): void {
    const { onEvent } = this.options;
    onEvent({ event: 'consumer.member-lost', detail: `member ${this.membership?.member}: ${why}` });
    this.membership = undefined;
    this.partitions.loseAll(why);
  }

  private async leave(): Promise<void> {
    if (!this.membership) return;
    const { member } = this.membership;
    await this.group.leave(member).catch((error: unknown) => {
      const detail = `member ${member} could not leave; its partitions are free when its session is over`;
      this.options.onEvent({ event: 'consumer.member-lost', detail, error });
    });
  }

  private async heard<Reply>(request: Promise<Reply>): Promise<Reply> {
    const reply = await request;
    this.lastContactMs = performance.now();
    return reply;
  }

  private sleep(ms: number): Promise<void> {
    if (this.drained.signal.aborted) return Promise.resolve();
    const woken = new AbortController();
    this.wakeUp = () => woken.abort();
    return pause(ms, woken.signal);
  }
}
