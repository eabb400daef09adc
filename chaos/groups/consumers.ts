import type { Api } from '../api.ts';
import { Consumer } from './consumer.ts';
import type { ConsumerCall } from './group-history.ts';
import { GROUPS } from './group-terms.ts';

export interface ConsumersOptions {
  readonly api: Api;
  readonly seed: number;
  readonly faults: boolean;
}

/** The consumers of all groups of a run. */
export class Consumers {
  readonly calls: ConsumerCall[] = [];
  private readonly consumers: Consumer[] = [];
  private readonly running: Promise<void>[] = [];

  constructor(private readonly options: ConsumersOptions) {}

  start(): void {
    for (const { name, consumers } of GROUPS)
      for (let n = 0; n < consumers; n++)
        this.startOne(name, `${name}-${n}`, this.options.faults && consumers === 1);
  }

  /** Of a group that was created just now. */
  startOne(group: string, name: string, seeks: boolean): void {
    const { api, seed, faults } = this.options;
    const consumer = new Consumer({
      ...{ api, calls: this.calls, group, name, faults, seeks },
      seed: seed * 1_000 + 500 + this.consumers.length,
    });
    this.consumers.push(consumer);
    const running = consumer.run();
    running.catch(() => undefined);
    this.running.push(running);
  }

  /** From now on none is killed, freezes or leaves. */
  calm(): void {
    for (const consumer of this.consumers) consumer.calm();
  }

  /** All of them leave. */
  async finish(): Promise<void> {
    for (const consumer of this.consumers) consumer.finish();
    await Promise.all(this.running);
  }

  get counts(): Record<string, number> {
    const { calls } = this;
    const polls = calls.filter(({ what }) => what === 'poll');
    const commits = calls.flatMap((call) => call.commits);
    const received = polls.flatMap(({ group, batches }) =>
      batches.flatMap(({ topic, partition, messages }) =>
        messages.map(({ offset }) => `${group} ${topic}/${partition}/${offset}`),
      ),
    );
    const ended = (what: ConsumerCall['what'], status: number) =>
      calls.filter((call) => call.what === what && call.status === status).length;
    return {
      polls: polls.length,
      pollsWithoutResponse: polls.filter(({ status }) => status === undefined).length,
      handedToGroups: received.length,
      repeatedToGroups: received.length - new Set(received).size,
      offsetsCommitted: commits.filter(({ outcome }) => outcome === 'committed').length,
      offsetsFenced: commits.filter(({ outcome }) => outcome === 'fenced').length,
      membersLeft: ended('leave', 204),
      seeks: ended('seek', 200),
    };
  }
}
