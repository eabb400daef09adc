import { SluiceError } from '../errors.ts';
import type { OnEvent } from '../events.ts';
import { backoff } from '../http/backoff.ts';
import { pause } from '../http/pause.ts';
import type { OwnedPartitions } from './owned-partitions.ts';
import type { CommitItem, CommitOutcome } from './wire.ts';

/** Progress that no poll carries is committed after this time. */
const AFTER_MS = 200;
const AGAIN_MS = 2_000;
const RETRIES = 3;

export interface CommitterOptions {
  readonly partitions: OwnedPartitions;
  readonly send: (items: readonly CommitItem[]) => Promise<readonly CommitOutcome[]>;
  /** Whether the heartbeat must stop. */
  readonly isSilent: () => boolean;
  /** The service does not know the member any more. */
  readonly forget: () => void;
  readonly onEvent: OnEvent;
}

/** Commits beside the polls: while one waits at the service, when none is due, and at the end. One request at a time. */
export class Committer {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private sending: Promise<void> | undefined;

  constructor(private readonly options: CommitterOptions) {}

  /** There is something to commit; at once if another member waits for it. */
  soon(isUrgent: boolean): void {
    this.in(isUrgent ? 0 : AFTER_MS);
  }

  /** Resolves when no commit is in flight. */
  async idle(): Promise<void> {
    await this.sending;
  }

  /** Retries; a partition that is lost meanwhile has nothing to commit. */
  async until(done: () => boolean): Promise<void> {
    for (let n = 0; !done(); n++) {
      await this.sending;
      try {
        await this.send();
      } catch (error) {
        if (!(error instanceof SluiceError)) throw error;
        if (error.is('member-unknown')) this.options.forget();
        else if (!error.retryable || n >= RETRIES) throw error;
        else await pause(backoff(n, error.retryAfter));
      }
    }
  }

  async end(): Promise<void> {
    clearTimeout(this.timer);
    await this.sending;
    clearTimeout(this.timer);
  }

  private in(ms: number): void {
    if (this.timer !== undefined && ms > 0) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.sendInBackground(), ms);
  }

  private async sendInBackground(): Promise<void> {
    this.timer = undefined;
    await this.sending;
    if (this.options.isSilent()) return;
    try {
      await this.send();
    } catch (error) {
      this.options.onEvent({ event: 'request.retried', detail: `commit: ${error}`, error });
      // The next poll carries it as well, and ends the run if it is refused for good.
      this.in(AGAIN_MS);
    }
  }

  private async send(): Promise<void> {
    const { partitions, send } = this.options;
    const items = partitions.commits();
    if (items.length === 0) return;
    const sending = partitions.commit(items, send);
    this.sending = sending
      .catch(() => undefined)
      .finally(() => {
        this.sending = undefined;
      });
    await sending;
  }
}
