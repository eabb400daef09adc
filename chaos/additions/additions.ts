import { setTimeout as pause } from 'node:timers/promises';
import type { Api } from '../api.ts';
import { TYPES } from '../bed-settings.ts';
import { type GroupTerms, groupDefinitionOf } from '../groups/group-terms.ts';
import { preciseNow } from '../precise-now.ts';
import { definitionOf, type QueueTerms } from '../queues/queue-terms.ts';
import { Random } from '../random.ts';

/** What was created in the middle of a run, each with the time at which that was confirmed. */
export interface Added extends GroupTerms {
  readonly queues: readonly QueueTerms[];
}

export const NOTHING_ADDED: Added = { topics: [], groups: [], queues: [] };

export interface AdditionsOptions {
  readonly api: Api;
  readonly seed: number;
  onGroup(name: string): void;
  onQueue(queue: QueueTerms): void;
}

/** In a run; each with a topic, and a group or a queue. */
const ROUNDS = 4;
const GROUP = { attempts: 3, maxInFlight: 100 };

/** Creates topics, groups and work queues while messages come in: every message that is posted after that must be in them. */
export class Additions {
  readonly added = {
    topics: [] as GroupTerms['topics'][number][],
    groups: [] as GroupTerms['groups'][number][],
    queues: [] as QueueTerms[],
  } satisfies Added;
  private readonly random: Random;

  constructor(private readonly options: AdditionsOptions) {
    this.random = new Random(options.seed + 3);
  }

  async run(untilMs: number): Promise<void> {
    const startMs = Date.now();
    for (let round = 0; round < ROUNDS; round++) {
      const atMs = startMs + ((round + this.random.between(0.2, 0.8)) / ROUNDS) * (untilMs - startMs);
      await pause(Math.max(0, atMs - Date.now()));
      await this.addTopic(`late-${round}`);
      if (round % 2 === 0) await this.addQueue(`late-${round}`, round === 0);
      else await this.addGroup(`late-${round}`, ['everything', `late-${round}`]);
    }
  }

  async addTopic(name: string): Promise<void> {
    const sinceMs = await this.create(`/v1/topics/${name}`, { partitions: 2, types: TYPES });
    this.added.topics.push({ name, types: TYPES, sinceMs });
  }

  async addQueue(name: string, ordered: boolean): Promise<void> {
    const queue = { name, types: TYPES, ordered, attempts: 6, maxInFlight: 40 };
    const sinceMs = await this.create(`/v1/listeners/${name}`, definitionOf(queue));
    this.added.queues.push({ ...queue, sinceMs });
    this.options.onQueue(queue);
  }

  /** It starts at the end of its topics. */
  async addGroup(name: string, topics: readonly string[]): Promise<void> {
    const definition = { ...groupDefinitionOf({ topics, ...GROUP }), start: 'latest' };
    const sinceMs = await this.create(`/v1/groups/${name}`, definition);
    this.added.groups.push({ name, topics, attempts: GROUP.attempts, sinceMs });
    this.options.onGroup(name);
  }

  /** Retries until it is confirmed; returns when that was. */
  private async create(path: string, body: object): Promise<number> {
    for (;;) {
      const reply = await this.options.api.call('PUT', path, this.random, { body, expected: [200, 201] });
      if (reply) return preciseNow();
      await pause(this.random.between(50, 200));
    }
  }
}
