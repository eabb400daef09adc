import { setTimeout as pause } from 'node:timers/promises';
import type { Api } from '../api.ts';
import type { ChainView } from '../chain.ts';
import { Random } from '../random.ts';
import type { SeenLink } from './rebuild-history.ts';

const READERS = 2;
const EVERY_MS = 20;

/** Read the read model over the API all the time, also while it is switched. */
export class Readers {
  readonly counts = { reads: 0 };
  /** Reads that found less than one that was over before they began. */
  readonly lost: string[] = [];
  private readonly links = new Map<string, SeenLink>();
  private readonly longest = new Map<string, number>();
  private keys = 0;
  private over = false;
  private reading: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly api: Api,
    private readonly seed: number,
    private readonly names: readonly string[],
  ) {}

  get seen(): SeenLink[] {
    return [...this.links.values()];
  }

  start(): void {
    this.reading = Promise.all(
      Array.from({ length: READERS }, (_, n) => this.read(new Random(this.seed * 100 + n))),
    );
  }

  async finish(): Promise<void> {
    this.over = true;
    await this.reading;
  }

  private async read(random: Random): Promise<void> {
    while (!this.over) {
      await this.readOne(random.one(this.names), random);
      await pause(EVERY_MS);
    }
  }

  private async readOne(key: string, random: Random): Promise<void> {
    const [links, keys] = [this.longest.get(key) ?? 0, this.keys];
    const reply = await this.api.call('GET', `/v1/chains/${key}`, random, { expected: [200, 404] });
    if (!reply) return;
    this.counts.reads += 1;
    const found = reply.status === 200 ? (reply.body as ChainView) : { n: 0, hash: '', keys: undefined };
    if (found.n < links) this.lost.push(`${key} was read with ${found.n} links after ${links}`);
    if (found.keys === undefined) return;
    if (found.keys < keys) this.lost.push(`${found.keys} keys were read after ${keys}`);
    this.longest.set(key, Math.max(this.longest.get(key) ?? 0, found.n));
    this.keys = Math.max(this.keys, found.keys);
    this.links.set(`${key} ${found.n} ${found.hash}`, { key, n: found.n, hash: found.hash });
  }
}
