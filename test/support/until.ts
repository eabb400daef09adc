import { setTimeout as pause } from 'node:timers/promises';

/** Polls a condition until it returns a truthy value, and returns that; fails on a timeout. */
export async function until<T>(condition: () => Promise<T> | T, timeoutMs = 60_000): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`not true within ${timeoutMs} ms: ${condition}`);
    await pause(5);
  }
}
