import { clientError } from '../errors.ts';
import type { OnEvent } from '../events.ts';
import { Partition } from './partition.ts';
import type {
  Assignment,
  CommitItem,
  CommitOutcome,
  Owned,
  PollReply,
  PollRequest,
  WireBatch,
} from './wire.ts';
import type { Work } from './work.ts';

export interface OwnedOptions {
  readonly group: string;
  readonly topics: readonly string[] | undefined;
  readonly onEvent: OnEvent;
}

/** A limit of the service, for commits and next offsets in one request. */
const MAX_ITEMS = 500;

/** The partitions of this member, as the last response says. */
export class OwnedPartitions {
  private readonly partitions = new Map<string, Partition>();
  /** Partitions that were handed over, as far as is known: the commit of their last messages is on its way. */
  private readonly handedOver = new Set<Partition>();
  private inFlight: readonly CommitItem[] = [];
  private polls = 0;

  constructor(
    private readonly work: Work,
    private readonly options: OwnedOptions,
  ) {}

  /** What can be committed and is not known to be. */
  commits(): CommitItem[] {
    const items = [...this.partitions.values()].flatMap((partition) => partition.toCommit() ?? []);
    return items.slice(0, MAX_ITEMS);
  }

  /** Of all partitions; where there are more than a poll may name, of some at each poll. */
  nextOffsets(): PollRequest['next'] {
    const all = [...this.partitions.values()];
    const from = all.length > MAX_ITEMS ? this.polls++ * MAX_ITEMS : 0;
    return Array.from({ length: Math.min(all.length, MAX_ITEMS) }, (_, n) => {
      const { topic, partition, fence, next } = all[(from + n) % all.length]!;
      return { topic, partition, fence, next };
    });
  }

  apply(reply: PollReply): void {
    this.assign(reply);
    const passed = new Set(
      [...reply.assigned, ...reply.draining].filter((one) => this.pass(one)).map(Partition.key),
    );
    for (const batch of reply.batches) this.receive(batch, passed.has(Partition.key(batch)));
  }

  assign(reply: Assignment): void {
    const owned = new Set<string>();
    for (const one of reply.assigned) owned.add(this.add(one, false));
    for (const one of reply.draining) owned.add(this.add(one, true));
    for (const [key, partition] of this.partitions)
      if (!owned.has(key)) this.lose(partition, 'it belongs to another member now');
  }

  /** Beside the polls: a poll may return that a partition is gone before its last commit is known to be recorded. */
  async commit(
    items: readonly CommitItem[],
    send: (items: readonly CommitItem[]) => Promise<readonly CommitOutcome[]>,
  ): Promise<void> {
    this.inFlight = items;
    const partitions = items.map((item) => this.partitions.get(Partition.key(item)));
    try {
      const outcomes = await send(items);
      partitions.forEach((partition, index) => {
        this.settleOne(partition, items[index]!, outcomes[index]!);
      });
    } finally {
      this.inFlight = [];
      for (const partition of this.handedOver)
        if (!partition.isCommitted) this.report(partition, 'it was gone before the last commit');
      this.handedOver.clear();
    }
  }

  settle(sent: readonly CommitItem[], outcomes: readonly CommitOutcome[]): void {
    sent.forEach((item, index) => {
      this.settleOne(this.partitions.get(Partition.key(item)), item, outcomes[index]!);
    });
  }

  /** `why` undefined: they are given back, which is nothing to report. */
  loseAll(why: string | undefined): void {
    for (const partition of [...this.partitions.values()]) this.lose(partition, why);
  }

  private settleOne(partition: Partition | undefined, item: CommitItem, { outcome }: CommitOutcome): void {
    if (!partition || partition.committed(item, outcome) || partition.isLost) return;
    this.lose(partition, `a commit up to offset ${item.offset} was refused (${outcome})`);
  }

  private add(one: Owned, draining: boolean): string {
    const key = Partition.key(one);
    if (!this.partitions.has(key)) {
      this.checkTopic(one.topic);
      this.partitions.set(key, new Partition(one));
    }
    this.partitions.get(key)!.draining = draining;
    return key;
  }

  /** Returns whether offsets of it were skipped. */
  private pass(one: Owned): boolean {
    const partition = this.partitions.get(Partition.key(one))!;
    const skipped = partition.pass(one.committed);
    if (skipped) this.reportSkipped(partition, skipped);
    return skipped !== undefined;
  }

  private checkTopic(topic: string): void {
    const { topics, group } = this.options;
    // Dead letters that were revived come back in a topic of their own.
    if (!topics || topics.includes(topic) || topic === `${group}.revived`) return;
    const detail = `The group "${group}" reads the topic "${topic}", which this consumer does not name in its topics.`;
    throw clientError('unexpected-topic', 'Unexpected topic', detail);
  }

  private receive(batch: WireBatch, isReported: boolean): void {
    const partition = this.partitions.get(Partition.key(batch));
    if (!partition) return;
    const { skipped } = batch;
    // Else a response before it was lost, and the next poll gets it again.
    if (skipped && skipped.from <= partition.next && !isReported) this.reportSkipped(partition, skipped);
    const messages = partition.receive(batch);
    if (messages.length > 0) this.work.take(partition, messages);
  }

  private reportSkipped({ name }: Partition, { from, to }: NonNullable<WireBatch['skipped']>): void {
    const detail = `offsets ${from} to ${to} of ${name} were removed before they were handed out`;
    this.options.onEvent({ event: 'consumer.skipped', detail });
  }

  private lose(partition: Partition, why: string | undefined): void {
    const key = Partition.key(partition);
    this.partitions.delete(key);
    const { reached, isFinished, isCommitted } = partition;
    const isOnItsWay = this.inFlight.some((item) => Partition.key(item) === key && item.offset === reached);
    // With nothing in flight it was handed over, as it should be.
    if (why !== undefined && !(isFinished && isCommitted)) {
      if (isFinished && isOnItsWay) this.handedOver.add(partition);
      else this.report(partition, why);
    }
    partition.lose();
    this.work.drop(partition);
  }

  private report({ name }: Partition, why: string): void {
    this.options.onEvent({ event: 'consumer.partition-lost', detail: `${name}: ${why}` });
  }
}
