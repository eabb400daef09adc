import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import type { Lease } from '../../lanes/lease.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { type ClaimedMessage, InboxQueue } from '../inbox-queue.ts';
import { InboxProcessor } from './inbox-processor.ts';
import { PrepareBatch } from './preparations.ts';

/**
 * Lanes whose messages wait for calls to other systems (`prepare`). They leave the worker's lease, stay leased, and are
 * processed when the calls are done; the worker continues with the other lanes at once.
 */
@Injectable()
export class PrepareLanes {
  private readonly stopping = new AbortController();
  private readonly renewMs: number;
  private readonly running = new Set<Promise<void>>();

  constructor(
    @Inject(SETTINGS_TOKEN) { inboxLease }: Pick<Settings, 'inboxLease'>,
    @Inject(LOG) private readonly log: Log,
    private readonly queue: InboxQueue,
    private readonly prepareBatch: PrepareBatch,
    private readonly processor: InboxProcessor,
    private readonly wakeups: Wakeups,
  ) {
    this.renewMs = inboxLease / 3;
  }

  /** The lane leaves the worker's lease and gets one of its own, under the same token. */
  take(from: Lease, lane: number, messages: readonly ClaimedMessage[]): void {
    from.lanes.delete(lane);
    const work = this.run({ ...from, lanes: new Set([lane]) }, lane, messages);
    this.running.add(work);
    void work.finally(() => this.running.delete(work));
  }

  /** Processes the messages while it renews the lease. When the replica is stopping, they are given back. */
  async process(lease: Lease, messages: readonly ClaimedMessage[]): Promise<void> {
    const renewing = setInterval(() => void this.renew(lease), this.renewMs);
    try {
      await this.processor.process({ lease, messages, stopping: this.stopping.signal });
    } finally {
      clearInterval(renewing);
    }
  }

  /** Aborts the calls in flight; messages that wait for a call are given back. */
  stop(): void {
    this.stopping.abort();
    this.prepareBatch.releaseAll();
  }

  async stopped(): Promise<void> {
    await Promise.all(this.running);
  }

  private async run(lease: Lease, lane: number, messages: readonly ClaimedMessage[]): Promise<void> {
    try {
      await this.process(lease, messages);
      await this.queue.lanes.release(lease);
    } catch (error) {
      const freed = await this.queue.lanes.abandon(lease, error);
      this.log.warn(
        { event: 'inbox.abandoned', lanes: 1, freed, error },
        'processing of a lane failed; its lease ends',
      );
    } finally {
      this.wakeups.wake('inbox', new Set([lane]));
    }
  }

  private async renew(lease: Lease): Promise<void> {
    try {
      await this.queue.lanes.renew(lease);
    } catch (error) {
      this.log.warn(
        { event: 'inbox.renewal-failed', error },
        'a lease could not be renewed; the renewal is retried',
      );
    }
  }
}
