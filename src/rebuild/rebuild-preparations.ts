import { Inject, Injectable } from '@nestjs/common';
import { Semaphore } from '../clock/semaphore.ts';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import type { Preparation } from '../inbox/denormalizers/denormalizer-runner.ts';
import { Preparations } from '../inbox/processing/preparations.ts';
import { LaneSource, type ReplayMessage } from './lane-source.ts';
import type { RegisteredModel } from './read-model-registry.ts';
import { MAX_TAIL, type Rebuild } from './rebuild.ts';

/** What `prepare` returned or threw, by position. */
export type Prepared = ReadonlyMap<number, Preparation>;

/** Calls `prepare` again for the messages of a rebuild, unless their denormalizer does without. */
@Injectable()
export class RebuildPreparations {
  private readonly calls: Semaphore;

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly source: LaneSource,
  ) {
    this.calls = new Semaphore(settings.inboxPrepareConcurrency);
  }

  /** Whether one of the next messages is such a message. */
  areNext({ id }: Rebuild, model: RegisteredModel): Promise<boolean> {
    return this.source.isNext(id, this.typesOf(model), MAX_TAIL);
  }

  /** The types whose messages cannot be applied without a call to another system. */
  typesOf(model: RegisteredModel): string[] {
    return model.types.filter((type) => this.needed(model, { type, wanted: true }));
  }

  /** Whether a message cannot be applied without a call to another system. */
  needed(model: RegisteredModel, { type, wanted }: Pick<ReplayMessage, 'type' | 'wanted'>): boolean {
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
