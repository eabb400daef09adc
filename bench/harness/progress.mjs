import { setTimeout as delay } from 'node:timers/promises';

/** A contender that works in batches has small ones at first: how often code has run decides whether it is compiled. */
const WARM_UP_BATCH = 10;

/**
 * Counts what a contender has handled and notifies the runner twice: when it is warm (the clock starts there: compilation
 * and first connections are not what is compared) and when it is over.
 */
export class Progress {
  #handled = 0;
  #warm;
  #over;
  #finish;
  isOver = false;

  constructor({ warmUp, until, seconds }, onWarm = () => undefined) {
    this.onWarm = onWarm;
    this.warmUp = warmUp;
    this.until = until;
    this.seconds = seconds;
    this.#over = new Promise((resolve) => {
      this.#finish = () => {
        this.isOver = true;
        resolve();
      };
    });
  }

  handled(count = 1) {
    this.#handled += count;
    if (!this.#warm && this.#handled >= this.warmUp) this.#start();
    if (this.until !== undefined && this.#handled >= this.until) this.#finish();
  }

  /** How many to take at a time. */
  batch(size) {
    return this.#warm ? size : WARM_UP_BATCH;
  }

  #start() {
    this.#warm = { at: performance.now(), cpu: process.cpuUsage(), handled: this.#handled };
    process.send({ warm: true });
    this.onWarm();
    if (this.seconds) setTimeout(this.#finish, this.seconds * 1000);
  }

  /** Waits for the last message and, with `remaining`, until the database has none left. */
  async over(remaining) {
    await this.#over;
    while (remaining && (await remaining()) > 0) await delay(3);
    const { at, cpu, handled } = this.#warm;
    const seconds = (performance.now() - at) / 1000;
    const used = process.cpuUsage(cpu);
    process.send({ over: true });
    const messages = this.#handled - handled;
    return { messages, seconds, rate: messages / seconds, nodeCpu: (used.user + used.system) / 1e6 };
  }
}
