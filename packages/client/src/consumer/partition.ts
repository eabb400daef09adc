import { Watermark } from './watermark.ts';
import type { CommitItem, CommitOutcome, Message, Owned, WireBatch } from './wire.ts';

/** A limit of the service: more are rejected by the commits that follow. */
const MAX_REJECTED = 500;

/** One partition for as long as this member owns it: what was received, what is processed, what is committed. */
export class Partition {
  readonly topic: string;
  readonly partition: number;
  readonly fence: number;
  /** The first offset that has not been received. */
  next: number;
  /** Nothing new is handed out: it goes to another member as soon as everything is committed. */
  draining = false;
  private lost = false;
  private readonly watermark: Watermark;
  private confirmed: number;
  private readonly rejections = new Map<number, string>();
  private readonly followers = new Set<() => void>();

  constructor({ topic, partition, fence, committed }: Owned) {
    this.topic = topic;
    this.partition = partition;
    this.fence = fence;
    this.next = committed + 1;
    this.confirmed = committed;
    this.watermark = new Watermark(committed);
  }

  /** With `takeover: "skip"` a partition can have two owners, or one owner twice; the fence tells them apart. */
  static key({ topic, partition, fence }: { topic: string; partition: number; fence: number }): string {
    return `${topic}/${partition}/${fence}`;
  }

  get name(): string {
    return `${this.topic}/${this.partition}`;
  }

  get isLost(): boolean {
    return this.lost;
  }

  get isFinished(): boolean {
    return this.watermark.unfinished === 0;
  }

  /** Everything processed is known to be recorded. */
  get isCommitted(): boolean {
    return this.reached <= this.confirmed;
  }

  /** Everything up to here is processed. */
  get reached(): number {
    return this.watermark.reached;
  }

  /**
   * The messages of a batch that are new. A batch that starts beyond the next offset means that a response was lost: nothing
   * of it is used, and the next poll asks for what is missing.
   */
  receive(batch: WireBatch): Message[] {
    const from = batch.skipped ? Math.min(batch.skipped.from, batch.from) : batch.from;
    if (from > this.next) return [];
    const fresh = batch.messages.filter(({ offset }) => offset >= this.next);
    for (const { offset } of fresh) this.watermark.receive(offset);
    this.next = Math.max(this.next, batch.to + 1);
    const { topic, partition } = this;
    return fresh.map((message) => ({ topic, partition, ...message }));
  }

  /**
   * The service has moved on by itself: it does that for offsets that retention has removed, and the response that said so was
   * lost. Returns them.
   */
  pass(committed: number): { readonly from: number; readonly to: number } | undefined {
    if (committed < this.next) return undefined;
    const skipped = { from: this.next, to: committed };
    this.watermark.pass(committed);
    this.confirmed = Math.max(this.confirmed, committed);
    this.next = committed + 1;
    return skipped;
  }

  /** Returns whether more can be committed now. */
  finish(offset: number): boolean {
    return this.watermark.finish(offset);
  }

  finishThrough(offset: number): boolean {
    return this.watermark.finishThrough(offset);
  }

  reject(offset: number, reason: string): void {
    this.rejections.set(offset, reason);
  }

  /** What can be committed and is not known to be. A rejection goes with the commit that covers it. */
  toCommit(): CommitItem | undefined {
    const { topic, partition, fence, reached } = this;
    if (this.lost || this.isCommitted) return undefined;
    const covered = [...this.rejections]
      .filter(([offset]) => offset <= reached)
      .map(([offset, reason]) => ({ offset, reason }))
      .sort((a, b) => a.offset - b.offset);
    const beyond = covered[MAX_REJECTED];
    const offset = beyond ? beyond.offset - 1 : reached;
    const rejected = covered.slice(0, MAX_REJECTED);
    return { topic, partition, fence, offset, ...(rejected.length > 0 ? { rejected } : {}) };
  }

  /** The service has decided about a commit. Returns whether the partition is still this member's. */
  committed(item: CommitItem, outcome: CommitOutcome['outcome']): boolean {
    if (outcome === 'fenced' || outcome === 'ahead') return false;
    this.confirmed = Math.max(this.confirmed, item.offset);
    for (const { offset } of item.rejected ?? []) this.rejections.delete(offset);
    return true;
  }

  lose(): void {
    this.lost = true;
    for (const follower of this.followers) follower();
    this.followers.clear();
  }

  /** Calls when the partition is lost, until the returned function is called. */
  onLost(follower: () => void): () => void {
    this.followers.add(follower);
    return () => this.followers.delete(follower);
  }
}
