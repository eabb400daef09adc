const SHORTEST_REST_MS = 1_000;
const LONGEST_REST_MS = 60_000;

/** Which of several things a loop works at failed lately: each rests by itself, longer each time, and the others go on. */
export class Setbacks {
  private readonly known = new Map<number, { times: number; untilMs: number }>();

  rests(id: number): boolean {
    return (this.known.get(id)?.untilMs ?? 0) > performance.now();
  }

  /** It failed; answers with how long it rests. */
  add(id: number): number {
    const times = (this.known.get(id)?.times ?? 0) + 1;
    const restMs = Math.min(LONGEST_REST_MS, SHORTEST_REST_MS * 2 ** Math.min(times - 1, 10));
    this.known.set(id, { times, untilMs: performance.now() + restMs });
    return restMs;
  }

  /** It went well. */
  forget(id: number): void {
    this.known.delete(id);
  }
}
