import { Injectable } from '@nestjs/common';

/** An empty set: it is not known which lanes. */
export type Lanes = ReadonlySet<number>;

/** Wakes the workers of a queue, with the lanes that were just written to. */
@Injectable()
export class Wakeups {
  private readonly handlers = new Map<string, ((lanes: Lanes) => void)[]>();
  private notifyOthers: (queue: string, lanes: Lanes) => void = () => undefined;

  /** The handler is called for every announced write to the queue, by this process or another replica. */
  on(queue: string, handler: (lanes: Lanes) => void): void {
    this.handlers.set(queue, [...(this.handlers.get(queue) ?? []), handler]);
  }

  /** The handler is called only for writes of this process, to notify the other replicas. */
  onLocalWrite(handler: (queue: string, lanes: Lanes) => void): void {
    this.notifyOthers = handler;
  }

  /** Called after the commit of a write. */
  announce(queue: string, lanes: Lanes): void {
    this.wake(queue, lanes);
    this.notifyOthers(queue, lanes);
  }

  wake(queue: string, lanes: Lanes): void {
    for (const wake of this.handlers.get(queue) ?? []) wake(lanes);
  }
}
