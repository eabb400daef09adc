import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';

/** How this replica stops to send: first it begins nothing more, later it ends what is still under way. */
@Injectable()
export class Draining {
  private readonly stop = new AbortController();
  private readonly end = new AbortController();
  /** Nothing more is sent. */
  readonly stopping: AbortSignal = this.stop.signal;
  /** Calls in flight are given up, uncharged. */
  readonly ending: AbortSignal = this.end.signal;
  private timer: NodeJS.Timeout | undefined;

  constructor(@Inject(SETTINGS_TOKEN) private readonly settings: Settings) {}

  /** Calls have half of the drain's time to come to their end; the other half is for writing down what came of them. */
  begin(): void {
    this.stop.abort();
    this.timer = setTimeout(() => this.end.abort(), this.settings.drainTimeout / 2);
  }

  done(): void {
    clearTimeout(this.timer);
  }
}
