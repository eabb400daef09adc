import { setTimeout as pause } from 'node:timers/promises';

/** Waits for a condition, looking often; fails with its last answer when it does not come true in time. */
export async function until<T>(condition: () => Promise<T> | T, timeoutMs = 20_000): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const answer = await condition();
    if (answer) return answer;
    if (Date.now() > deadline) throw new Error(`not true within ${timeoutMs} ms: ${condition}`);
    await pause(5);
  }
}
