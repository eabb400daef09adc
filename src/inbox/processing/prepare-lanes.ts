import { Inject, Injectable } from '@nestjs/common';
import { Semaphore } from '../../clock/semaphore.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Database } from '../../database/database.ts';
import type { Lease } from '../../lanes/lease.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import type { ClaimedMessage } from '../claimed-message.ts';
import type { Preparation } from '../denormalizers/denormalizer-runner.ts';
import { InboxProcessor } from './inbox-processor.ts';
import { InboxQueue } from './inbox-queue.ts';
import { withPayloads } from './payloads.ts';
import { Preparations } from './preparations.ts';
import { Triage } from './triage.ts';

/**
 * A14: lanes whose messages wait for calls outside (`prepare`). They are taken out of the worker's hands, kept leased,
 * and processed when the calls are done; the worker goes on with the other lanes at once.
 */
@Injectable()
export class PrepareLanes {
  private readonly stopping = new AbortController();
  private readonly running = new Set<Promise<void>>();
  private readonly calls: Semaphore;

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly queue: InboxQueue,
    private readonly preparations: Preparations,
    private readonly sieve: Triage,
    private readonly processor: InboxProcessor,
    private readonly wakeups: Wakeups,
  ) {
    this.calls = new Semaphore(settings.inboxPrepareConcurrency);
  }

  /** The lane leaves the worker's lease and gets one of its own, under the same token. */
  take(from: Lease, lane: number, messages: readonly ClaimedMessage[]): void {
    from.lanes.delete(lane);
    const work = this.run({ ...from, lanes: new Set([lane]) }, lane, messages);
    this.running.add(work);
    void work.finally(() => this.running.delete(work));
  }

  /** Prepares, then processes, and keeps the lease alive meanwhile. When stopping, they are given back. */
  async handle(lease: Lease, messages: readonly ClaimedMessage[]): Promise<void> {
    const renewing = setInterval(() => void this.renew(lease), this.settings.inboxLease / 3);
    try {
      // C8: what is superseded makes no call outside.
      const ready = await this.sieve.endLateAndSuperseded(lease, messages);
      const prepared = new Map<ClaimedMessage, Preparation>();
      const slow = ready.filter((message) => this.preparations.needed(message));
      await Promise.all(slow.map((message) => this.prepare(lease, message, prepared)));
      if (this.stopping.signal.aborted) await this.queue.lanes.giveBack(lease);
      else {
        const late = new Set(slow.filter((message) => !prepared.has(message)));
        await this.processor.handle({ lease, messages: ready.filter((one) => !late.has(one)), prepared });
      }
    } finally {
      clearInterval(renewing);
    }
  }

  /** Calls in flight are cut; what waits for one is given back. */
  stop(): void {
    this.stopping.abort();
    this.calls.releaseAll();
  }

  async stopped(): Promise<void> {
    await Promise.all(this.running);
  }

  private async run(lease: Lease, lane: number, messages: readonly ClaimedMessage[]): Promise<void> {
    try {
      await this.handle(lease, messages);
      await this.queue.lanes.release(lease);
    } catch (error) {
      const freed = await this.queue.lanes.abandon(lease, error);
      this.log.warn({ event: 'inbox.abandoned', lanes: 1, freed, error }, 'a lane was given up');
    } finally {
      this.wakeups.wake('inbox', new Set([lane]));
    }
  }

  /** One that is too late by the time it gets its turn makes no call, and is not prepared. */
  private async prepare(
    lease: Lease,
    message: ClaimedMessage,
    prepared: Map<ClaimedMessage, Preparation>,
  ): Promise<void> {
    await this.calls.acquire();
    try {
      if (this.stopping.signal.aborted) return;
      const [inTime] = await this.sieve.endLate(lease, [message]);
      if (!inTime) return;
      const [loaded] = await withPayloads([message], this.database);
      prepared.set(message, await this.preparations.run(loaded!, this.stopping.signal));
    } finally {
      this.calls.release();
    }
  }

  private async renew(lease: Lease): Promise<void> {
    try {
      await this.queue.lanes.renew(lease);
    } catch (error) {
      this.log.warn(
        { event: 'inbox.renewal-failed', error },
        'a lease could not be renewed; it is tried again',
      );
    }
  }
}
