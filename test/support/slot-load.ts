import { setTimeout as pause } from 'node:timers/promises';
import { slotOf } from '../../src/cells/slot-of.ts';
import type { TestApp } from './app.ts';
import type { TestDatabase } from './database.ts';
import type { LedgerRow } from './ledger-read-model.ts';
import type { Receiver } from './receiver.ts';

/** `count` keys of a slot. */
export function keysOf(slot: number, count: number): string[] {
  const keys: string[] = [];
  for (let number = 0; keys.length < count; number++)
    if (slotOf(`k-${number}`) === slot) keys.push(`k-${number}`);
  return keys;
}

/** Producers, one for each key: they post numbers one after the other, and repeat what was not accepted, as a client does. */
export class SlotLoad {
  /** The last accepted number of each key. */
  readonly accepted = new Map<string, number>();
  /** How long the slowest post took until it was accepted, with its repetitions. */
  slowestMs = 0;
  refused = 0;
  private stopping = false;
  private readonly running: Promise<void>[];

  constructor(
    private readonly replica: TestApp,
    readonly keys: readonly string[],
  ) {
    this.running = keys.map((key) => this.produce(key));
  }

  get total(): number {
    return [...this.accepted.values()].reduce((sum, n) => sum + n, 0);
  }

  async stop(): Promise<void> {
    this.stopping = true;
    await Promise.all(this.running);
  }

  private async produce(key: string): Promise<void> {
    for (let n = 1; !this.stopping; n++) {
      const startedAt = performance.now();
      while (!(await this.post(key, n))) await pause(20);
      this.accepted.set(key, n);
      this.slowestMs = Math.max(this.slowestMs, performance.now() - startedAt);
      await pause(50);
    }
  }

  /** Every tenth message is posted twice, as by a client that lost the response. */
  private async post(key: string, n: number): Promise<boolean> {
    const body = { type: 'test/count', key, id: `${key}-${n}`, payload: { n } };
    const { status } = await this.replica.call('POST', '/v1/messages', { body });
    if (status !== 202 && status !== 200) this.refused += 1;
    else if (n % 10 === 0) await this.replica.call('POST', '/v1/messages', { body });
    return status === 202 || status === 200;
  }
}

/** What is wrong with what was applied: nothing may be lost, applied twice, out of order, or in two cells. */
export async function faultsOf(load: SlotLoad, databases: readonly TestDatabase[]): Promise<string[]> {
  const rows = (
    await Promise.all(databases.map((one) => one.query<LedgerRow>('SELECT * FROM ledger')))
  ).flat();
  return [...load.accepted].flatMap(([key, n]) => {
    const own = rows.filter((row) => row.key === key);
    const isRight = own.length === 1 && own[0]!.n === n && own[0]!.applied === n && own[0]!.wrong === 0;
    return isRight ? [] : [`${key}: ${n} accepted, ${JSON.stringify(own)}`];
  });
}

/** The numbers that a receiver took, by key, in the order in which it took them. */
export class Taken {
  private readonly byKey = new Map<string, number[]>();

  /** Fails every `failing`-th request. */
  constructor(receiver: Receiver, failing: number) {
    receiver.respond = ({ body }, response, count) => {
      if (count % failing === 0) return void response.writeHead(503).end();
      const { key, data } = body as { key: string; data: { n: number } };
      this.byKey.set(key, [...(this.byKey.get(key) ?? []), data.n]);
      return void response.writeHead(204).end();
    };
  }

  get total(): number {
    return [...this.byKey.values()].reduce((sum, { length }) => sum + length, 0);
  }

  faultsOf(load: SlotLoad): string[] {
    return [...load.accepted].flatMap(([key, n]) => {
      const taken = this.byKey.get(key) ?? [];
      const isRight = taken.length === n && taken.every((one, nth) => one === nth + 1);
      return isRight ? [] : [`${key}: ${n} accepted, delivered ${taken.join(',')}`];
    });
  }
}
