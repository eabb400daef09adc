import { clientError } from '../errors.ts';
import type { Handler, HandlerContext, Item } from './handler.ts';

/** One call of the handler. */
export class Run {
  isOverdue = false;
  private controller: AbortController | undefined;
  private aborted: { readonly reason: unknown } | undefined;
  private readonly timer: ReturnType<typeof setTimeout>;
  private readonly unfollow: () => void;

  constructor(
    readonly item: Item,
    timeoutMs: number,
    overdue: () => void,
  ) {
    this.timer = setTimeout(() => {
      this.isOverdue = true;
      this.abort(clientError('timeout', 'Handler timeout', `The handler took longer than ${timeoutMs} ms.`));
      overdue();
    }, timeoutMs);
    this.unfollow = item.partition.onLost(() => this.abort(lost(item.partition.name)));
  }

  /** Returns what the handler threw. */
  async call(handler: Handler): Promise<{ readonly cause: unknown } | undefined> {
    try {
      await handler(this.item.message, this.context());
      return undefined;
    } catch (cause) {
      return { cause };
    } finally {
      clearTimeout(this.timer);
      this.unfollow();
    }
  }

  /** Nobody waits for it any more. */
  end(): void {
    this.abort(clientError('closed', 'Stopped', 'The consumer was stopped.'));
  }

  /** The signal is made when it is asked for: most handlers do not, and it costs more than the rest of a call. */
  private context(): HandlerContext {
    const run = this;
    return {
      tries: this.item.tries,
      fence: this.item.partition.fence,
      get signal() {
        return run.signal();
      },
    };
  }

  private signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (this.aborted) this.controller.abort(this.aborted.reason);
    return this.controller.signal;
  }

  private abort(reason: unknown): void {
    this.aborted ??= { reason };
    this.controller?.abort(reason);
  }
}

function lost(name: string) {
  return clientError('partition-lost', 'Partition lost', `${name} belongs to another member now.`);
}
