import type { Message, SluiceEvent } from '../../packages/client/src/node.ts';
import { Sluice } from '../../packages/client/src/node.ts';
import { CONSUME_KEY, type TestApp } from '../support/app.ts';
import { until } from '../support/until.ts';

let topics = 0;

/** A topic with a group that reads it. */
export interface TestTopic {
  readonly topic: string;
  readonly group: string;
  /** Posts messages; their payloads count from 0. Resolves when they are in the topic. */
  post(count: number, key?: (n: number) => string): Promise<void>;
  /** The group as operators see it. */
  // biome-ignore lint/suspicious/noExplicitAny: tests read arbitrary bodies
  state(): Promise<any>;
  /** Resolves when everything is committed. */
  committed(): Promise<void>;
  /** The reasons in the group's dead letters, by payload. */
  deadLetters(): Promise<Map<unknown, string>>;
}

export async function createTopic(
  replica: TestApp,
  { partitions = 4, ...definition }: Record<string, unknown> = {},
): Promise<TestTopic> {
  topics += 1;
  const [topic, group] = [`orders-${topics}`, `billing-${topics}`];
  await expectOk(replica.call('PUT', `/v1/topics/${topic}`, { body: { partitions } }));
  await expectOk(replica.call('PUT', `/v1/groups/${group}`, { body: { topics: [topic], ...definition } }));
  let posted = 0;
  const state = async () => (await replica.call('GET', `/v1/groups/${group}`)).body;
  return {
    topic,
    group,
    state,
    async post(count, key = (n) => `k-${n % 20}`) {
      for (let from = 0; from < count; from += 500) {
        const messages = Array.from({ length: Math.min(500, count - from) }, (_, n) => ({
          key: key(posted + n),
          payload: posted + n,
        }));
        await expectOk(replica.call('POST', `/v1/topics/${topic}/messages/batch`, { body: { messages } }));
        posted += messages.length;
      }
      let written = 0;
      await until(async () => {
        const { body } = await replica.call('GET', `/v1/topics/${topic}`);
        written = body.partitions.reduce((sum: number, { next }: { next: number }) => sum + next, 0);
        return written >= posted;
      }).catch(async () => {
        const backlog = (await replica.call('GET', '/v1/backlog')).text;
        throw new Error(`${written} of ${posted} messages are in ${topic}: ${backlog}`);
      });
    },
    committed: () => until(async () => (await state()).lag === 0).then(() => undefined),
    async deadLetters() {
      const { body } = await replica.call('GET', `/v1/topics/${group}.dead/messages?limit=500`);
      const messages: { payload: unknown; reason: string }[] = body.messages;
      return new Map(messages.map(({ payload, reason }) => [payload, reason]));
    },
  };
}

/** What handlers saw, in the order in which they started. */
export class Handled {
  readonly messages: Message[] = [];
  readonly running = new Map<string, number>();
  maxRunning = 0;
  maxRunningOfKey = 0;

  start(message: Message): void {
    this.messages.push(message);
    const ofKey = (this.running.get(message.key) ?? 0) + 1;
    this.running.set(message.key, ofKey);
    this.maxRunningOfKey = Math.max(this.maxRunningOfKey, ofKey);
    this.maxRunning = Math.max(
      this.maxRunning,
      [...this.running.values()].reduce((a, b) => a + b),
    );
  }

  end({ key }: Message): void {
    this.running.set(key, this.running.get(key)! - 1);
  }

  /** The payloads, by key. */
  byKey(): Record<string, unknown[]> {
    const keys: Record<string, unknown[]> = {};
    for (const { key, payload } of this.messages) {
      keys[key] ??= [];
      keys[key].push(payload);
    }
    return keys;
  }

  get payloads(): number[] {
    return this.messages.map(({ payload }) => payload as number).sort((a, b) => a - b);
  }
}

/** A client, with what it reported. */
export function sluiceOf(url: string | string[], options: { timeout?: number } = {}) {
  const events: SluiceEvent[] = [];
  const sluice = new Sluice({
    url,
    apiKey: CONSUME_KEY,
    onEvent: (event) => void events.push(event),
    ...options,
  });
  const names = () => events.map(({ event }) => event);
  return { sluice, events, names };
}

export function range(count: number, from = 0): number[] {
  return Array.from({ length: count }, (_, n) => from + n);
}

/** A promise and the function that resolves it. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

async function expectOk(call: ReturnType<TestApp['call']>): Promise<void> {
  const { status, text } = await call;
  if (status >= 300) throw new Error(`${status} ${text}`);
}
