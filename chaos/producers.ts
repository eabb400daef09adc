import { setTimeout as pause } from 'node:timers/promises';
import type { Posted } from './history.ts';
import { type Draft, Messages } from './messages.ts';
import { preciseNow } from './precise-now.ts';
import { Random } from './random.ts';

export interface ProducersOptions {
  readonly seed: number;
  /** Of all replicas; any of them may be unavailable. */
  readonly urls: readonly string[];
  readonly producers: number;
  readonly keys: number;
  /** Messages per second, of all producers together. */
  readonly rate: number;
  readonly poison: boolean;
  readonly kills: number;
}

type Outcome = Posted['outcome'];

const POST_TIMEOUT_MS = 4_000;

/**
 * Each producer has its own keys and posts one request after the other, and retries with the same ids until it has a
 * response. So it knows the order that its messages must have.
 */
export class Producers {
  readonly posted: Posted[] = [];
  readonly counts = { posts: 0, repeats: 0, refusals: 0, failures: 0 };
  private over = false;

  constructor(private readonly options: ProducersOptions) {}

  /** The first producer posts only to the hot key. */
  async run(untilMs: number): Promise<void> {
    const { producers, keys } = this.options;
    const all = Array.from({ length: keys }, (_, n) => `k${n}`);
    const keysOf = (index: number) =>
      index === 0 ? ['hot'] : all.filter((_, n) => n % (producers - 1) === index - 1);
    await Promise.all(Array.from({ length: producers }, (_, n) => this.produce(n, keysOf(n), all, untilMs)));
  }

  /** Ends the retries of requests without a response. */
  giveUp(): void {
    this.over = true;
  }

  private async produce(
    index: number,
    keys: readonly string[],
    otherKeys: readonly string[],
    untilMs: number,
  ): Promise<void> {
    const { seed, poison, kills, rate, producers } = this.options;
    const random = new Random(seed * 1_000 + index);
    const messages = new Messages(random, { keys, otherKeys, poison, kills, prefix: `p${index}` });
    let nextMs = Date.now();
    while (Date.now() < untilMs) {
      const draw = random.next();
      const size = draw < 0.1 ? 1 + random.below(20) : 1;
      const drafts = Array.from({ length: size }, () => messages.next());
      if (draw > 0.98) await this.postBad(drafts, random);
      else await this.post(drafts, random, draw < 0.1);
      if (draw < 0.95 && random.chance(0.05)) await this.repeat(drafts[0]!, random);
      nextMs += (size * 1_000 * producers) / rate;
      const wait = nextMs - Date.now();
      if (wait > 0) await pause(wait);
      else nextMs = Date.now();
    }
  }

  private async post(drafts: readonly Draft[], random: Random, batch: boolean): Promise<void> {
    const body = batch ? `{"messages":[${drafts.map(textOf).join(',')}]}` : textOf(drafts[0]!);
    const postedMs = preciseNow();
    const outcome = await this.send(batch ? '/v1/messages/batch' : '/v1/messages', body, random);
    this.remember(drafts, outcome === 'refused' ? 'unknown' : outcome, postedMs);
    if (outcome === 'refused') throw new Error(`a good post was refused: ${body}`);
  }

  /** The same message again, like a producer that did not receive the response. */
  private async repeat(draft: Draft, random: Random): Promise<void> {
    this.counts.repeats += 1;
    await this.send('/v1/messages', textOf(draft), random);
  }

  /** A message that must be refused, alone or together with its batch. */
  private async postBad(drafts: readonly Draft[], random: Random): Promise<void> {
    const good = drafts.map(textOf);
    const bad = { ...drafts[0]!, id: `${drafts[0]!.id}-bad`, payload: '{"n": 1, "n": 2}' };
    const alone = random.chance(0.5);
    const body = alone ? textOf(bad) : `{"messages":[${[...good, textOf(bad)].join(',')}]}`;
    const postedMs = preciseNow();
    const outcome = await this.send(alone ? '/v1/messages' : '/v1/messages/batch', body, random);
    if (outcome === 'accepted') throw new Error(`a bad post was accepted: ${body}`);
    this.counts.refusals += 1;
    this.remember(alone ? [bad] : [...drafts, bad], 'refused', postedMs);
  }

  private remember(drafts: readonly Draft[], outcome: Outcome, postedMs: number): void {
    for (const { id, type, key, payload, dueInMs } of drafts)
      this.posted.push({ id, type, key, payload, outcome, scheduled: dueInMs !== undefined, postedMs });
  }

  /** Retries until a response settles whether it was accepted. */
  private async send(path: string, body: string, random: Random): Promise<Outcome> {
    while (!this.over) {
      this.counts.posts += 1;
      const status = await post(random.one(this.options.urls) + path, body);
      if (status === 200 || status === 202) return 'accepted';
      if (status === 422 || status === 409) return 'refused';
      if (status !== undefined && status !== 503 && status !== 429)
        throw new Error(`a post returned ${status}: ${body}`);
      this.counts.failures += 1;
      await pause(random.between(20, 200));
    }
    return 'unknown';
  }
}

async function post(url: string, body: string): Promise<number | undefined> {
  try {
    const headers = { 'content-type': 'application/json' };
    const signal = AbortSignal.timeout(POST_TIMEOUT_MS);
    const response = await fetch(url, { method: 'POST', headers, body, signal });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return undefined;
  }
}

/** The text of each message: times are fixed when it is first built, so that a repeat is identical. */
const texts = new WeakMap<Draft, string>();

function textOf(draft: Draft): string {
  const { id, type, key, payload, dueInMs, expiresInMs } = draft;
  const known = texts.get(draft);
  if (known) return known;
  const at = (name: string, ms: number | undefined) =>
    ms === undefined ? '' : `,"${name}":"${new Date(Date.now() + ms).toISOString()}"`;
  const text = `{"id":"${id}","type":"${type}","key":"${key}","payload":${payload}${at('dueAt', dueInMs)}${at('expiresAt', expiresInMs)}}`;
  texts.set(draft, text);
  return text;
}
