/**
 * How far a partition is processed without a hole: messages finish in any order, but only the contiguous part may be
 * committed, because a commit says that everything up to it was processed.
 */
export class Watermark {
  /** Offsets in the order received; those before `head` are passed. */
  private open: number[] = [];
  private head = 0;
  private readonly finished = new Set<number>();

  /** `reached`: the last offset processed so far. */
  constructor(private offset: number) {}

  get reached(): number {
    return this.offset;
  }

  /** How many messages are received and not finished. */
  get unfinished(): number {
    return this.open.length - this.head - this.finished.size;
  }

  /** Offsets ascend; those left out are not waited for. */
  receive(offset: number): void {
    this.open.push(offset);
  }

  /** Nothing up to this offset will be received any more. */
  pass(offset: number): void {
    this.offset = Math.max(this.offset, offset);
  }

  /** Returns whether more can be committed now. */
  finish(offset: number): boolean {
    this.finished.add(offset);
    return this.advance();
  }

  /** Everything received up to this offset. */
  finishThrough(offset: number): boolean {
    for (let n = this.head; n < this.open.length && this.open[n]! <= offset; n++)
      this.finished.add(this.open[n]!);
    return this.advance();
  }

  private advance(): boolean {
    const before = this.head;
    while (this.head < this.open.length && this.finished.delete(this.open[this.head]!)) {
      this.offset = this.open[this.head]!;
      this.head += 1;
    }
    const advanced = this.head > before;
    if (this.head === this.open.length || this.head >= COMPACT_AT) {
      this.open = this.open.slice(this.head);
      this.head = 0;
    }
    return advanced;
  }
}

const COMPACT_AT = 4_096;
