import { Injectable } from '@nestjs/common';

/** An empty set: some lanes, it is not known which. */
export type Lanes = ReadonlySet<number>;

/** Tells the loops at once which lanes of a queue were just written to. */
@Injectable()
export class Wakeups {
  private readonly handlers = new Map<string, ((lanes: Lanes) => void)[]>();
  private notifyOthers: (queue: string, lanes: Lanes) => void = () => undefined;

  /** Called for every write to the queue that is heard of, here or elsewhere. */
  on(queue: string, sleeper: (lanes: Lanes) => void): void {
    this.handlers.set(queue, [...(this.handlers.get(queue) ?? []), sleeper]);
  }

  /** Called for writes of this process, to tell the others. */
  onLocalWrite(onward: (queue: string, lanes: Lanes) => void): void {
    this.notifyOthers = onward;
  }

  /** After the commit. */
  announce(queue: string, lanes: Lanes): void {
    this.wake(queue, lanes);
    this.notifyOthers(queue, lanes);
  }

  wake(queue: string, lanes: Lanes): void {
    for (const wake of this.handlers.get(queue) ?? []) wake(lanes);
  }
}
