const WINDOW_MS = 300_000;
const SLOTS = 30;
const MIN_CALLS = 10;
const FAILED_SHARE = 0.7;

interface Slot {
  readonly startedAtMs: number;
  good: number;
  bad: number;
}

/** The calls to one listener in the last 5 minutes: 70 % failures of at least 10 calls open its circuit. */
export class Circuit {
  private slots: Slot[] = [];

  /** Returns whether the circuit should open now. */
  count(good: boolean, nowMs: number = performance.now()): boolean {
    const slot = this.slotAt(nowMs);
    if (good) slot.good += 1;
    else slot.bad += 1;
    if (good) return false;
    const bad = this.slots.reduce((sum, one) => sum + one.bad, 0);
    const all = this.slots.reduce((sum, one) => sum + one.good + one.bad, 0);
    return all >= MIN_CALLS && bad / all >= FAILED_SHARE;
  }

  forget(): void {
    this.slots = [];
  }

  private slotAt(nowMs: number): Slot {
    const last = this.slots.at(-1);
    if (last && nowMs - last.startedAtMs < WINDOW_MS / SLOTS) return last;
    const fresh = { startedAtMs: nowMs, good: 0, bad: 0 };
    this.slots = [...this.slots.filter(({ startedAtMs }) => nowMs - startedAtMs < WINDOW_MS), fresh];
    return fresh;
  }
}
