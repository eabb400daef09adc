import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';

/** How this replica stops sending: first it starts no new calls, later it aborts those in flight. */
@Injectable()
export class Draining {
  private readonly stop = new AbortController();
  private readonly end = new AbortController();
  /** No new call is started. */
  readonly stopping: AbortSignal = this.stop.signal;
  /** Calls in flight are aborted; no attempt is counted. */
  readonly ending: AbortSignal = this.end.signal;
  private timer: NodeJS.Timeout | undefined;

  constructor(@Inject(SETTINGS_TOKEN) private readonly settings: Settings) {}

  /** Calls in flight have half of the drain timeout to finish; the other half is for writing their results. */
  begin(): void {
    this.stop.abort();
    this.timer = setTimeout(() => this.end.abort(), this.settings.drainTimeout / 2);
  }

  done(): void {
    clearTimeout(this.timer);
  }
}
