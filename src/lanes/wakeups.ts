import { Injectable } from '@nestjs/common';

/** An empty set: some lanes, it is not known which. */
export type Lanes = ReadonlySet<number>;

/** Tells the loops at once which lanes of a queue were just written to. */
@Injectable()
export class Wakeups {
  private readonly sleepers = new Map<string, ((lanes: Lanes) => void)[]>();
  private onward: (queue: string, lanes: Lanes) => void = () => undefined;

  /** Called for every write to the queue that is heard of, here or elsewhere. */
  on(queue: string, sleeper: (lanes: Lanes) => void): void {
    this.sleepers.set(queue, [...(this.sleepers.get(queue) ?? []), sleeper]);
  }

  /** Called for writes of this process, to tell the others. */
  onWrittenHere(onward: (queue: string, lanes: Lanes) => void): void {
    this.onward = onward;
  }

  /** After the commit. */
  written(queue: string, lanes: Lanes): void {
    this.writtenElsewhere(queue, lanes);
    this.onward(queue, lanes);
  }

  writtenElsewhere(queue: string, lanes: Lanes): void {
    for (const wake of this.sleepers.get(queue) ?? []) wake(lanes);
  }
}
