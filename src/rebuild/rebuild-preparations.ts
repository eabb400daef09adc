import { Inject, Injectable } from '@nestjs/common';
import { Semaphore } from '../clock/semaphore.ts';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import type { Preparation } from '../inbox/denormalizers/denormalizer-runner.ts';
import { Preparations } from '../inbox/processing/preparations.ts';
import type { ReplayMessage } from './lane-source.ts';
import type { RegisteredModel } from './read-model-registry.ts';

/** What `prepare` returned or threw, by position. */
export type Prepared = ReadonlyMap<number, Preparation>;

/** Calls `prepare` again for the messages of a rebuild, unless their denormalizer does without. */
@Injectable()
export class RebuildPreparations {
  private readonly calls: Semaphore;

  constructor(@Inject(SETTINGS_TOKEN) private readonly settings: Settings) {
    this.calls = new Semaphore(settings.inboxPrepareConcurrency);
  }

  /** Whether a message cannot be applied without a call to another system. */
  needed(model: RegisteredModel, { type, wanted }: ReplayMessage): boolean {
    return wanted && this.denormalizersOf(model, type).some(({ instance }) => instance.prepare);
  }

  async run(
    model: RegisteredModel,
    rows: readonly ReplayMessage[],
    stopping: AbortSignal,
  ): Promise<Prepared> {
    const prepared = new Map<number, Preparation>();
    const denormalizers = { of: (type: string) => this.denormalizersOf(model, type) };
    const preparations = new Preparations(this.settings, denormalizers);
    const prepareOne = async (row: ReplayMessage) => {
      await this.calls.acquire();
      try {
        prepared.set(row.position, await preparations.run(row, stopping));
      } finally {
        this.calls.release();
      }
    };
    await Promise.all(rows.filter((row) => this.needed(model, row)).map(prepareOne));
    return prepared;
  }

  private denormalizersOf({ denormalizers }: RegisteredModel, type: string) {
    return denormalizers.of(type).filter(({ options }) => options.rebuild?.prepare !== 'skip');
  }
}
