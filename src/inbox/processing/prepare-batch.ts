import { Inject, Injectable } from '@nestjs/common';
import { Semaphore } from '../../clock/semaphore.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Database } from '../../database/database.ts';
import type { ClaimedMessage } from '../claimed-message.ts';
import type { Preparation } from '../denormalizers/denormalizer-runner.ts';
import type { Batch, ClaimedBatch } from './batch.ts';
import { withPayloads } from './payloads.ts';
import { Preparations } from './preparations.ts';
import { Triage } from './triage.ts';

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
