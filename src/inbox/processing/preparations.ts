import { Inject, Injectable } from '@nestjs/common';
import { Semaphore } from '../../clock/semaphore.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Database } from '../../database/database.ts';
import { messageOf, withPayloadOf } from '../denormalizers/applied-message.ts';
import type { Preparation } from '../denormalizers/denormalizer-runner.ts';
import { Denormalizers } from '../denormalizers/denormalizers.ts';
import { type ClaimedMessage, withPayloads } from '../inbox-queue.ts';
import type { Batch, ClaimedBatch } from './inbox-transaction.ts';
import { Triage } from './triage.ts';

/** Runs `prepare` for one message: calls to other systems, before and outside the transaction. */
@Injectable()
export class Preparations {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    @Inject(Denormalizers) private readonly denormalizers: Pick<Denormalizers, 'of'>,
  ) {}

  needed(message: ClaimedMessage): boolean {
    return !message.expired && this.denormalizers.of(message.type).some(({ instance }) => instance.prepare);
  }

  async run(message: ClaimedMessage, stopping: AbortSignal): Promise<Preparation> {
    const results = new Map<string, unknown>();
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(this.settings.inboxPrepareTimeout)]);
    try {
      for (const { name, options, instance } of this.denormalizers.of(message.type)) {
        if (!instance.prepare) continue;
        const checked = withPayloadOf(messageOf(message), options.payload);
        results.set(name, await orAborted(instance.prepare(checked, signal), signal));
      }
      return { results, error: undefined };
    } catch (error) {
      return { results, error: error ?? new Error('prepare failed without a reason') };
    }
  }
}

const NEVER = new AbortController().signal;

/** The step before a batch is applied: runs `prepare` for its messages, a limited number at a time over all batches. */
@Injectable()
export class PrepareBatch {
  private readonly calls: Semaphore;

  constructor(
    @Inject(SETTINGS_TOKEN) settings: Settings,
    private readonly database: Database,
    private readonly preparations: Preparations,
    private readonly triage: Triage,
  ) {
    this.calls = new Semaphore(settings.inboxPrepareConcurrency);
  }

  /** Returns the batch without the messages that expired before it was their turn to be prepared. */
  async run(batch: ClaimedBatch, messages: readonly ClaimedMessage[]): Promise<Batch> {
    const prepared = new Map<ClaimedMessage, Preparation>();
    const slow = messages.filter((message) => this.preparations.needed(message));
    if (slow.length === 0) return { ...batch, messages, prepared };
    await Promise.all(slow.map((message) => this.prepareOne(batch, message, prepared)));
    const expired = new Set(slow.filter((message) => !prepared.has(message)));
    return { ...batch, messages: messages.filter((message) => !expired.has(message)), prepared };
  }

  /** Messages that wait for their turn no longer wait; their batch has to be stopping. */
  releaseAll(): void {
    this.calls.releaseAll();
  }

  private async prepareOne(
    { lease, stopping = NEVER }: ClaimedBatch,
    message: ClaimedMessage,
    prepared: Map<ClaimedMessage, Preparation>,
  ): Promise<void> {
    await this.calls.acquire();
    try {
      if (stopping.aborted) return;
      const [inTime] = await this.triage.endExpired(lease, [message]);
      if (!inTime) return;
      const [loaded] = await withPayloads([message], this.database);
      prepared.set(message, await this.preparations.run(loaded!, stopping));
    } finally {
      this.calls.release();
    }
  }
}

/** A call that ignores its signal must not block its lane for ever. */
function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(new Error('prepare took too long or was stopped'));
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
