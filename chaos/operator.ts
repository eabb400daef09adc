import { setTimeout as pause } from 'node:timers/promises';
import { laneOf } from '../src/lanes/lane-of.ts';
import type { ObserverDatabase } from './observer-database.ts';
import { Random } from './random.ts';

/** An operator that holds keys, some of them without a time limit, and releases them again; never the key of a dead letter. */
export class Operator {
  /** All keys that it held. */
  readonly keys = new Set<string>();
  held = 0;

  constructor(
    private readonly database: ObserverDatabase,
    private readonly seed: number,
    private readonly keyCount: number,
  ) {}

  async run(untilMs: number): Promise<void> {
    const random = new Random(this.seed + 2);
    while (Date.now() < untilMs) {
      const key = random.chance(0.2) ? 'hot' : `k${random.below(this.keyCount)}`;
      const ms = random.chance(0.5) ? null : Math.round(random.between(50, 800));
      this.keys.add(key);
      await this.database.query(
        `INSERT INTO hold (queue, key, lane, until, reason)
         VALUES ('inbox', $1, $2, COALESCE(clock_timestamp() + $3::int * interval '1 millisecond', 'infinity'), 'operator')
         ON CONFLICT (queue, lane, key) DO UPDATE SET until = EXCLUDED.until, reason = 'operator'
         WHERE hold.reason NOT IN ('dead-letter', 'retry')`,
        [key, laneOf(key, 256), ms],
      );
      await pause(random.between(20, 500));
      await this.database.query(
        `UPDATE hold SET until = clock_timestamp() WHERE queue = 'inbox' AND key = $1 AND reason = 'operator'`,
        [key],
      );
      this.held += 1;
      await pause(random.between(0, 300));
    }
  }
}
