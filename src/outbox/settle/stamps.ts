import { isDatabaseAway } from '../../database/faults.ts';
import type { Log } from '../../telemetry/logger.ts';
import type { OutboxStore } from '../outbox-store.ts';
import type { Result } from './delivery-result.ts';

const RETRY_MS = 200;
const MAX_FAILURES = 3;

/** Which transactions took effect, and what they wrote, by the rows that carry their stamps. */
export interface Stamped {
  readonly stamps: ReadonlySet<number>;
  readonly positions: ReadonlySet<number>;
}

/** Reads what the rows say of settlements whose COMMIT was sent. */
export class Stamps {
  constructor(
    private readonly store: OutboxStore,
    private readonly log: Log,
  ) {}

  async of(stamps: readonly number[], results: readonly Result[]): Promise<Stamped> {
    const deliveries = results.map(({ delivery }) => delivery);
    const rows = await this.store.stamped(deliveries, stamps);
    return {
      stamps: new Set(rows.map(({ stamp }) => stamp)),
      positions: new Set(rows.map(({ position }) => position)),
    };
  }

  /** The same after a commit that must not be repeated: waits while the database is away. Undefined: it cannot be read. */
  async ofCommitted(stamps: readonly number[], results: readonly Result[]): Promise<Stamped | undefined> {
    for (let failures = 0; failures < MAX_FAILURES; await rest()) {
      try {
        return await this.of(stamps, results);
      } catch (error) {
        if (!isDatabaseAway(error)) failures += 1;
        const event = 'outbox.read-failed';
        this.log.warn({ event, results: results.length, failures, error }, 'it is tried again');
      }
    }
    return undefined;
  }
}

export function rest(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, RETRY_MS));
}
