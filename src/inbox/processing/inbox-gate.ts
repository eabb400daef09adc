import { Injectable } from '@nestjs/common';

/** While it is closed, this replica takes no further messages of the inbox; those in flight are finished. It opens by itself. */
@Injectable()
export class InboxGate {
  private untilMs = 0;

  close(ms: number): void {
    this.untilMs = performance.now() + ms;
  }

  open(): void {
    this.untilMs = 0;
  }

  get isClosed(): boolean {
    return performance.now() < this.untilMs;
  }
}
