/**
 * Under load the results of some time go together, of less if a lane waits for them. Measured with a receiver that takes
 * 1 ms, PostgreSQL's time per delivery: 62 µs when those of 4 ms go together, 42 when those of 20 do.
 */
export const LEAST_MS = 4;
export const MOST_MS = 20;

/** What came meanwhile: nothing, something that is in no hurry, or something that is. */
export type Gathered = 'nothing' | 'something' | 'urgent';

/** How long what comes one by one is waited for before it is taken together. */
export class Gathering {
  private goOn: () => void = () => undefined;

  /** Resolves after the least, unless something came that can wait: then with the first hurry, after the most at last. */
  async wait(gathered: () => Gathered): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, LEAST_MS));
    if (gathered() !== 'something') return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, MOST_MS - LEAST_MS);
      this.goOn = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  hurry(): void {
    this.goOn();
  }
}
